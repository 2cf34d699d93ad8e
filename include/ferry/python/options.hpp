// ferry: options for the arguments and results in the signature of a bound C++ function.
#pragma once

#include <ferry/python/api.hpp>

#include <ferry/base/device.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/exchange/request.hpp>
#include <ferry/space/back_end.hpp>

#include <concepts>
#include <cstdint>
#include <utility>

namespace FERRY_NAMESPACE::python {

/// Option: when to copy a tensor. With copy_policy::never, the tensor is shared, or the argument is rejected. With
/// copy_policy::always, it is copied. Without the option, a copy is made if the tensor cannot be used otherwise, unless
/// the binding library forbids implicit conversions.
///
/// \tparam Policy  policy
template <copy_policy Policy>
struct copies {};
/// Option: the device of the data. A tensor on another device is copied, or rejected if `copies` or the binding library
/// forbids a copy.
///
/// \tparam Type  device type
/// \tparam Id    device id
template <device_type Type, std::int32_t Id = 0>
struct on {};
/// Option: the stream on which the function uses data that is not on the host.
///
/// \tparam Stream  function that takes a device and returns a stream_token
template <auto Stream>
struct on_stream {};
/// Option: the back end that copies, orders and waits.
///
/// \tparam BackEnd  stateless back end, for example `ferry::python::cuda_back_end<>`
template <class BackEnd>
struct through {};

/// An argument with options, for the signature of a bound function: `argument<typed_view<float const, 2>,
/// copies<copy_policy::never>>`. The operators `*` and `->` access the value. The data remains valid for as long as
/// that of a parameter of type T.
///
/// \tparam T        type of the argument
/// \tparam Options  `copies`, `on`, `on_stream` and `through`, each at most once
template <class T, class... Options>
class argument {
   public:
    /// Stores the argument.
    ///
    /// \param value   argument
    /// \param object  object from which it was imported, borrowed
    explicit argument(T value, PyObject* object = nullptr) : value_(std::move(value)), object_{object} {}
    [[nodiscard]] T& operator*() noexcept { return value_; }
    [[nodiscard]] T const& operator*() const noexcept { return value_; }
    [[nodiscard]] T* operator->() noexcept { return &value_; }
    [[nodiscard]] T const* operator->() const noexcept { return &value_; }
    /// The Python object from which the argument was imported. Valid until the bound function returns.
    [[nodiscard]] PyObject* object() const noexcept { return object_; }

   private:
    T value_;
    PyObject* object_;
};

/// Whether the casters of ferry convert arguments and results of type T, for which array_traits is specialised.
/// Specialise the variable as false for a type that is bound as a class or has another caster.
///
/// \tparam T  array type
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
                  "ferry: unknown option: pass copies<>, on<>, on_stream<>, through<> or library<>");
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
}  // namespace FERRY_NAMESPACE::python
