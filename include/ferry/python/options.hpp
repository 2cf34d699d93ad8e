// ferry: what the signature of a bound C++ function may say of an argument and of a result.
#pragma once

#include <ferry/python/api.hpp>

#include <ferry/base/device.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/exchange/request.hpp>
#include <ferry/space/back_end.hpp>

#include <concepts>
#include <cstdint>
#include <utility>

namespace ferry::inline v0::python {

/// Options of an argument and of a result. How a tensor may be copied: copy_policy::never shares or
/// refuses, copy_policy::always gives the function memory of its own; without the option a copy is
/// made where only a copy fits, unless the framework forbids implicit conversions.
template <copy_policy Policy>
struct copies {};
/// The device where the function wants the data. It is brought there where implicit conversions are
/// allowed.
template <device_type Type, std::int32_t Id = 0>
struct on {};
/// The stream on which the function uses data off the host: `Stream(device)` gives a stream_token.
template <auto Stream>
struct on_stream {};
/// The back end that copies, orders and waits: a stateless one, `ferry::python::cuda_back_end<>`
/// for instance.
template <class BackEnd>
struct through {};

/// An argument with options, for the signature of a bound function: `argument<typed_view<float
/// const, 2>, copies<copy_policy::never>>`. Reads like a pointer to the T. What it says of lifetime
/// is what T says: see the casters.
template <class T, class... Options>
class argument {
   public:
    explicit argument(T value) : value_(std::move(value)) {}
    [[nodiscard]] T& operator*() noexcept { return value_; }
    [[nodiscard]] T const& operator*() const noexcept { return value_; }
    [[nodiscard]] T* operator->() noexcept { return &value_; }
    [[nodiscard]] T const* operator->() const noexcept { return &value_; }

   private:
    T value_;
};

/// Whether arrays of type T, which array_traits adapts, are imported and exported where a bound
/// function takes and returns them. Set it to false for a type that the framework knows as a class
/// of its own, or has another caster for.
template <class T>
inline constexpr bool casts_array = true;

namespace detail {

struct no_options {
    static constexpr copy_policy copy = copy_policy::if_needed;
    static constexpr bool moves = false;
    static constexpr device where = cpu;
    using back_end = host_back_end;
};
template <class Rest, class Option>
struct with_option {
    static_assert(!std::same_as<Option, Option>,
                  "ferry: an option is copies<>, on<>, on_stream<>, through<> or library<>");
};
template <class Rest, copy_policy Policy>
struct with_option<Rest, copies<Policy>> : Rest {
    static constexpr copy_policy copy = Policy;
};
template <class Rest, device_type Type, std::int32_t Id>
struct with_option<Rest, on<Type, Id>> : Rest {
    static constexpr bool moves = true;
    static constexpr device where{Type, Id};
};
template <class Rest, auto Stream>
struct with_option<Rest, on_stream<Stream>> : Rest {
    [[nodiscard]] static stream_token current_stream(device d) { return Stream(d); }
};
template <class Rest, class BackEnd>
struct with_option<Rest, through<BackEnd>> : Rest {
    using back_end = BackEnd;
};

template <class Options, class... More>
struct all_options {
    using type = Options;
};
template <class Options, class First, class... More>
struct all_options<Options, First, More...> : all_options<with_option<Options, First>, More...> {};
template <class... Options>
using options = typename all_options<no_options, Options...>::type;

template <class Options>
concept names_stream = requires(device d) {
    { Options::current_stream(d) } -> std::same_as<stream_token>;
};

}  // namespace detail
}  // namespace ferry::inline v0::python
