// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// How a type of the user's own is turned into bytes and back.

#include <concepts>
#include <cstddef>
#include <cstring>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "reprieve/error.hpp"

namespace reprieve {

/// Customisation point. Specialise it to register values of a type T in a Checkpoint:
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

/// What the C++ standard demands of a random engine: among others, it writes and reads its state as text.
template <class E>
concept RandomEngine = requires(E& engine, const E& constant, std::ostream& out, std::istream& in) {
  typename E::result_type;
  E::min();
  E::max();
  engine.seed();
  engine.discard(1ULL);
  out << constant;
  in >> engine;
};

}  // namespace detail

/// Random engines of the standard library, and others that keep its rules: as the text that their operator<< writes;
/// exact, and portable between libraries.
template <detail::RandomEngine Engine>
struct Serializer<Engine> {
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
