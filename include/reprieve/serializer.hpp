// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// How a type of the user's own is turned into bytes and back.

#include <cstddef>
#include <cstring>
#include <random>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "reprieve/error.hpp"

namespace reprieve {

/// Customisation point. Specialise it for a type T that is to be registered in a Checkpoint:
///
///     template <> struct reprieve::Serializer<Particle> {
///       static std::vector<std::byte> save(const Particle& value);
///       static void load(Particle& value, std::span<const std::byte> bytes);   // throws on bytes it does not know
///     };
///
/// `save` and `load` run on the thread that saves or restores, without MPI. The bytes are stored as opaque data; a
/// format that may change should begin with a version of its own.
template <class T>
struct Serializer;

/// Types for which a Serializer exists.
template <class T>
concept Serializable = requires(const T& constant, T& value, std::span<const std::byte> bytes) {
  { Serializer<T>::save(constant) } -> std::same_as<std::vector<std::byte>>;
  Serializer<T>::load(value, bytes);
};

namespace detail {

/// The random engines of the standard library, which all write their state as text with operator<<.
template <class T>
struct IsStandardEngine : std::false_type {};
template <class U, U a, U c, U m>
struct IsStandardEngine<std::linear_congruential_engine<U, a, c, m>> : std::true_type {};
template <class U, std::size_t w, std::size_t n, std::size_t m, std::size_t r, U a, std::size_t u, U d, std::size_t s,
          U b, std::size_t t, U c, std::size_t l, U f>
struct IsStandardEngine<std::mersenne_twister_engine<U, w, n, m, r, a, u, d, s, b, t, c, l, f>> : std::true_type {};
template <class U, std::size_t w, std::size_t s, std::size_t r>
struct IsStandardEngine<std::subtract_with_carry_engine<U, w, s, r>> : std::true_type {};
template <class E, std::size_t p, std::size_t r>
struct IsStandardEngine<std::discard_block_engine<E, p, r>> : std::true_type {};
template <class E, std::size_t w, class U>
struct IsStandardEngine<std::independent_bits_engine<E, w, U>> : std::true_type {};
template <class E, std::size_t k>
struct IsStandardEngine<std::shuffle_order_engine<E, k>> : std::true_type {};

}  // namespace detail

/// Standard random engines, as the text that the standard defines for them; exact, and portable between libraries.
template <class Engine>
requires detail::IsStandardEngine<Engine>::value struct Serializer<Engine> {
  static std::vector<std::byte> save(const Engine& engine) {
    std::ostringstream text;
    text.imbue(std::locale::classic());
    text << engine;
    const std::string state = text.str();
    std::vector<std::byte> bytes(state.size());
    std::memcpy(bytes.data(), state.data(), state.size());
    return bytes;
  }

  static void load(Engine& engine, std::span<const std::byte> bytes) {
    std::istringstream text(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    text.imbue(std::locale::classic());
    text >> engine;
    if (text.fail()) {
      throw MismatchError("the stored state is not that of a random engine of this type");
    }
  }
};

}  // namespace reprieve
