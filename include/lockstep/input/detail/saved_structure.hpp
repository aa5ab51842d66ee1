#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/input/detail/tensor_nest.hpp>

#pragma GCC visibility push(default)

/// Lengths, keys and absences of nests as lists of text, which files keep: for a vector its length, for a map
/// its length and each key, for an optional 0 or 1, each before the parts inside.
namespace lockstep::detail {

template <class T>
void append_saved_structure(const T& nest, std::vector<std::string>& saved) {
  if constexpr (TupleNest<T>) {
    std::apply([&](const auto&... member) { (append_saved_structure(member, saved), ...); }, nest);
  } else if constexpr (ArrayNest<T>) {
    for (const auto& element : nest) append_saved_structure(element, saved);
  } else if constexpr (VectorNest<T>) {
    saved.push_back(std::to_string(nest.size()));
    for (const auto& element : nest) append_saved_structure(element, saved);
  } else if constexpr (MapNest<T>) {
    saved.push_back(std::to_string(nest.size()));
    for (const auto& [key, element] : nest) {
      saved.push_back(key);
      append_saved_structure(element, saved);
    }
  } else if constexpr (OptionalNest<T>) {
    saved.push_back(nest ? "1" : "0");
    if (nest) append_saved_structure(*nest, saved);
  } else if constexpr (RecordNest<T>) {
    std::apply([&](const auto&... member) { (append_saved_structure(member, saved), ...); },
               lockstep_nest_members(nest));
  }
}

template <TensorNest T>
std::vector<std::string> save_structure(const T& nest) {
  std::vector<std::string> saved;
  append_saved_structure(nest, saved);
  return saved;
}

/// Whether a nest can be made anew from such a list: its structs have default constructors.
template <class T>
consteval bool is_loadable() {
  if constexpr (TupleNest<T>) return []<std::size_t... I>(std::index_sequence<I...>) {
      return (is_loadable<std::tuple_element_t<I, T>>() && ...);
    }
  (std::make_index_sequence<std::tuple_size_v<T>>());
  else if constexpr (ArrayNest<T> || VectorNest<T> ||
                     OptionalNest<T>) return is_loadable<typename T::value_type>();
  else if constexpr (MapNest<T>) return is_loadable<typename T::mapped_type>();
  else if constexpr (RecordNest<T>) return std::default_initializable<T> &&
      []<class... Members>(std::type_identity<std::tuple<Members...>>) {
        return (is_loadable<std::remove_cvref_t<Members>>() && ...);
      }(std::type_identity<decltype(lockstep_nest_members(std::declval<T&>()))>());
  else return true;
}

/// Reads such a list without trusting it.
class StructureLoader {
 public:
  /// @param max_parts  upper bound of the sum of all lengths.
  StructureLoader(const std::vector<std::string>& saved, std::uint64_t max_parts)
      : saved_(saved), num_left_(max_parts) {}

  /// Whether the whole list was read and fits the type.
  bool is_good() const { return is_good_ && next_ == saved_.size(); }

  template <class T>
  T load() {
    if constexpr (is_tuple<T>::value && requires { typename T::first_type; }) {
      auto first = load<typename T::first_type>();  // named: in order
      return T(std::move(first), load<typename T::second_type>());
    } else if constexpr (TupleNest<T>) {
      return [&]<std::size_t... I>(std::index_sequence<I...>) {
        return T{load<std::tuple_element_t<I, T>>()...};
      }
      (std::make_index_sequence<std::tuple_size_v<T>>());
    } else if constexpr (ArrayNest<T>) {
      return [&]<std::size_t... I>(std::index_sequence<I...>) {
        return T{(static_cast<void>(I), load<typename T::value_type>())...};
      }
      (std::make_index_sequence<std::tuple_size_v<T>>());
    } else if constexpr (VectorNest<T>) {
      T result;
      for (std::uint64_t n = load_length(); n > 0 && is_good_; --n)
        result.push_back(load<typename T::value_type>());
      return result;
    } else if constexpr (MapNest<T>) {
      T result;
      for (std::uint64_t n = load_length(); n > 0 && is_good_; --n) {
        std::string key = load_text();
        const bool is_new = result.emplace(std::move(key), load<typename T::mapped_type>()).second;
        is_good_ = is_good_ && is_new;
      }
      return result;
    } else if constexpr (OptionalNest<T>) {
      const std::uint64_t n = load_length();
      is_good_ = is_good_ && n <= 1;
      return n == 1 ? T(load<typename T::value_type>()) : T();
    } else if constexpr (RecordNest<T>) {
      static_assert(std::default_initializable<T>,
                    "cache in a file: give the struct a default constructor, so that it can be read again");
      T result{};
      std::apply([&](auto&... member) { ((member = load<std::remove_cvref_t<decltype(member)>>()), ...); },
                 lockstep_nest_members(result));
      return result;
    } else {
      return T();
    }
  }

 private:
  /// The next part. If there is none: "", and is_good() becomes false.
  std::string load_text();
  /// The next part as a length. If it is not one, or too long: 0, and is_good() becomes false.
  std::uint64_t load_length();

  const std::vector<std::string>& saved_;
  std::uint64_t num_left_;
  std::size_t next_ = 0;
  bool is_good_ = true;
};

/// A nest of empty tensors; nothing if the list does not describe the type.
template <TensorNest T>
std::optional<T> load_structure(const std::vector<std::string>& saved, std::uint64_t max_parts) {
  StructureLoader loader(saved, max_parts);
  T structure = loader.load<T>();
  return loader.is_good() ? std::optional<T>(std::move(structure)) : std::nullopt;
}

}  // namespace lockstep::detail

#pragma GCC visibility pop
