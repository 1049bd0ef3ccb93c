// Are the functions that we declare of a library those of its own header?
#pragma once
#include <type_traits>

namespace tycho::cuda {

// Pointers go for pointers, numbers for enumerations of the same size.
template <class Ours, class Theirs>
constexpr bool same =
    sizeof(Ours) == sizeof(Theirs) && std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>;
template <class Ours, class Theirs>
struct Match : std::false_type {};
template <class R, class... A, class S, class... B>
requires(sizeof...(A) == sizeof...(B)) struct Match<R (*)(A...), S (*)(B...)>
    : std::bool_constant<same<R, S> && (same<A, B> && ...)> {
};

}  // namespace tycho::cuda
