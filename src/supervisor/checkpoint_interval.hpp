// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// How often to save against failures that come without notice. Pure; all times in seconds.
///
/// Failures come at random with a mean time M between them; a save costs d, and a restart R. Too many saves cost time,
/// too few lose work.

namespace reprieve::supervisor {

/// sqrt(2 d M): J. W. Young, A first order approximation to the optimum checkpoint interval, Communications of the ACM
/// 17(9), 1974, 530-531. Work between two saves, for d much smaller than M.
double young_interval_s(double save_s, double mtbf_s);

/// sqrt(2 d M) [1 + 1/3 sqrt(d / 2M) + 1/9 (d / 2M)] - d for d < 2M, else M: J. T. Daly, A higher order estimate of the
/// optimum checkpoint interval for restart dumps, Future Generation Computer Systems 22(3), 2006, 303-312, equation 37.
/// Work between two saves.
double daly_interval_s(double save_s, double mtbf_s);

/// The part of the time, 0 to 1, that goes into saves, restarts and work that is lost, with @p interval_s of work
/// between saves: 1 - Ts / Tw, from the expected wall clock time Tw = M exp(R/M) (exp((interval + d)/M) - 1) Ts /
/// interval for Ts of work (Daly 2006, equation 20).
double lost_fraction(double interval_s, double save_s, double restart_s, double mtbf_s);

/// With no failure in @p observed_s, the mean time between failures is longer than that divided by -ln(0.05), about
/// three, with a confidence of 95 %: the rule of three; J. A. Hanley and A. Lippman-Hand, If nothing goes wrong, is
/// everything all right?, JAMA 249(13), 1983, 1743-1745.
double shortest_mtbf_s(double observed_s);

}  // namespace reprieve::supervisor
