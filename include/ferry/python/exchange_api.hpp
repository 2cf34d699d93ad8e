// ferry: the C exchange API of an array type (R69–R77).
#pragma once

#include <ferry/python/error.hpp>
#include <ferry/python/export.hpp>
#include <ferry/python/import.hpp>
#include <ferry/python/unwrap.hpp>

#include <ferry/abi/exchange_api.hpp>
#include <ferry/exchange/consumer.hpp>
#include <ferry/exchange/from_dlpack.hpp>
#include <ferry/exchange/to_dlpack.hpp>
#include <ferry/space/detail/operations.hpp>

#include <concepts>
#include <utility>

namespace FERRY_NAMESPACE::python {
namespace detail {

/// The exchange table (DLPackExchangeAPI) of one array type. No exception propagates from its functions (R77).
template <class T, class Unwrap, class Wrap, class BackEnd, class Context>
struct FERRY_HIDDEN exchange_table {
    /// Whether `wrap` receives the context, which the functions of a table do not.
    static constexpr bool needs_context = wraps_with_context<Wrap, T, Context>;
    static inline constinit atomic_pointer<Context> wrap_context;

    /// Allocates a tensor with the data type, rank, shape and device of the prototype; other members of the prototype
    /// are not read. Calls no Python function, and does not require the GIL (R72).
    static int allocate(DLTensor* prototype, DLManagedTensorVersioned** out, void* context,
                        void (*set_error)(void*, char const*, char const*)) noexcept {
        try {
            auto const v = read_prototype(prototype, out);
            BackEnd b{};
            ferry::detail::reporter const r{allocator_name, in_python};
            if constexpr (allocates<T>) {
                static_cast<void>(ferry::detail::check_lanes(v, ferry::detail::accepted_by<T>, r));
                auto fresh = ferry::detail::allocate_array<T>(v.dtype(), v.shape(), v.device(), {});
                static_cast<void>(ferry::detail::check_result(fresh, r));
                *out = ferry::detail::make_raw<DLManagedTensorVersioned>(std::move(ferry::detail::unwrapped(fresh)),
                                                                         ferry::detail::describe, v.device(),
                                                                         flags::none, version::current, r);
            } else {
                static_cast<void>(ferry::detail::check_support(b, v.device(), r));
                auto fresh = b.allocate(v.device(), static_cast<std::size_t>(v.nbytes()), stream_token{});
                static_cast<void>(ferry::detail::check_memory(fresh, r));
                auto& memory = ferry::detail::unwrapped(fresh);
                ferry::detail::describe_memory const described{v};
                *out = ferry::detail::make_valid_raw<DLManagedTensorVersioned>(
                    std::move(memory), described, described(memory), v.device(), flags::none, version::current, r);
            }
            return 0;
        } catch (...) {
            pass_error(context, set_error);
            return -1;
        }
    }

    /// Exports an owning tensor that shares the memory, without synchronisation (R73).
    static int from_object(void* object, DLManagedTensorVersioned** out) noexcept {
        try {
            require_main_interpreter();
            auto const where = in_python;
            array_in<T, Unwrap> held{static_cast<PyObject*>(object)};
            T& array = *held;
            tensor_view const& v = view_of(array);
            order_current_stream(array, v.device());
            // Nothing is copied. Only an event is waited for through the back end.
            std::conditional_t<has_ready_event<T>, BackEnd, share_only_back_end> b{};
            request const req{.copy = copy_policy::never, .stream = stream_token::no_sync()};
            *out = ferry::detail::export_for<managed_tensor>(array, v, shareable<T>, req, already_ready, b,
                                                             {"managed_tensor_from_py_object_no_sync", where})
                       .release();
            return 0;
        } catch (...) {
            translate_exception();
            return -1;
        }
    }

    /// Imports a tensor; after a failure its deleter has run (R74). Padded elements are packed in a copy, unless the
    /// array type supports them (R13). The tensor is ready on the current stream of this thread (R76).
    static int to_object(DLManagedTensorVersioned* tensor, void** out) noexcept {
        try {
            imported got{ferry::from_dlpack(tensor)};
            require_main_interpreter();
            BackEnd b{};
            accept_struct(importer_for<T>(b), got);
            *out =
                wrap_array<Wrap, T>(ferry::detail::consume<T>(std::move(got.tensor), got.ready_on), wrap_context.get());
            return *out != nullptr ? 0 : -1;
        } catch (...) {
            translate_exception();
            return -1;
        }
    }

    /// Exports a tensor that is valid until control returns to Python, without an allocation: shape and strides are
    /// those of the array. A DLTensor has no flags, so read-only and padded arrays are rejected (R75). Strides of 0 are
    /// exported unchanged: they tell the consumer that elements repeat (R29).
    static int borrow_object(void* object, DLTensor* out) noexcept {
        try {
            require_main_interpreter();
            array_in<T, Unwrap> held{static_cast<PyObject*>(object)};
            T& array = *held;
            tensor_view const& v = view_of(array);
            DLTensor const lent = borrowed(v);
            order_current_stream(array, v.device());
            *out = lent;
            return 0;
        } catch (...) {
            translate_exception();
            return -1;
        }
    }

    /// Returns the current stream of this thread; NULL on the host (R76).
    static int current_stream([[maybe_unused]] DLDeviceType type, [[maybe_unused]] std::int32_t id,
                              void** out) noexcept {
        try {
            *out = nullptr;
            if constexpr (has_current_stream<T>) {
                device const dev{static_cast<device_type>(type), id};
                if (uses_streams(dev.type))
                    *out = reinterpret_cast<void*>(array_traits<T>::current_stream(dev).native_handle());
            }
            return 0;
        } catch (...) {
            translate_exception();
            return -1;
        }
    }

    static constexpr abi::exchange_api table{
        {{version::current.major, version::current.minor}, nullptr}, &allocate,      &from_object, &to_object,
        unwraps_value<Unwrap, T> ? nullptr : &borrow_object,         &current_stream};

   private:
    /// Makes the current stream of this thread, on which the consumer uses the tensor (R76), wait for the stream on
    /// which the array is ready, or for its event. Does not block the host.
    static void order_current_stream([[maybe_unused]] T& array, [[maybe_unused]] device dev) {
        if constexpr ((has_ready_on<T> || has_ready_event<T>) && has_current_stream<T>) {
            if (!uses_streams(dev.type)) return;
            BackEnd b{};
            ferry::detail::reporter const r{"DLPackExchangeAPI", in_python};
            stream_token const on = array_traits<T>::current_stream(dev).on_device(dev);
            auto const ready = array_traits<T>::ready_on(array);
            if constexpr (has_ready_event<T>)
                static_cast<void>(
                    ferry::detail::perform(r, [&] { return ferry::detail::wait_for_event(b, ready, dev, on); }));
            else static_cast<void>(ferry::detail::order_streams(ready.on_device(dev), on, b, r));
        }
    }
};

}  // namespace detail

/// Returns a capsule with the exchange table of an array type, the value of the attribute `__dlpack_c_exchange_api__`
/// of a Python type (R69). Set the attribute before the first use of the type. For a static type, add it to `tp_dict`
/// before PyType_Ready; in Cython, assign it in the body of the class; for a mutable type, call PyObject_SetAttrString.
///
/// Requires the GIL and the main interpreter, because the table exists until the process ends.
///
/// \tparam T        array type whose array_traits has view, share and adopt
/// \tparam BackEnd  stateless back end; the default supports the host only
/// \tparam Context  type of `*context`; void if `wrap` has no second parameter
/// \param unwrap    captureless lambda: `unwrap(PyObject*)` returns the T in an object; see `unwraps`. If the lambda
///                  returns by value, dltensor_from_py_object_no_sync of the table is NULL (R75)
/// \param wrap      captureless lambda: `wrap(T&&)` or `wrap(T&&, Context*)` returns a new object; see `wraps`
/// \param b         back end
/// \param context   second argument of `wrap`; must remain valid until the process ends. A PyTypeObject is kept alive
/// \return          new reference; null with a Python error set: ImportError in a sub-interpreter, ValueError if an
///                  earlier call with the same `unwrap` and `wrap` passed another context
template <class T, class Unwrap, class Wrap, class BackEnd = host_back_end, class Context = void>
[[nodiscard]] PyObject* exchange_api_capsule([[maybe_unused]] Unwrap unwrap, [[maybe_unused]] Wrap wrap,
                                             [[maybe_unused]] BackEnd b = {},
                                             [[maybe_unused]] Context* context = nullptr) noexcept {
    static_assert(ferry::detail::is_adapted<T>() && detail::is_stateless_back_end<BackEnd>());
    static_assert(shareable<T>, "ferry: Python keeps the array, so exports need array_traits<T>::share");
    static_assert(consumer<T>, "ferry: imports need array_traits<T>::adopt");
    static_assert(detail::is_unwrap<T, Unwrap>() && detail::is_wrap<T, Wrap, Context>());
    using table = detail::exchange_table<T, Unwrap, Wrap, BackEnd, Context>;
    if (!detail::check_interpreter()) return nullptr;
    if constexpr (table::needs_context) {
        if constexpr (std::same_as<Context, PyTypeObject>)
            if (table::wrap_context.get() == nullptr) Py_XINCREF(context);
        if (table::wrap_context.set_once(context) != context) {
            PyErr_SetString(PyExc_ValueError,
                            "an exchange table has one context, and these functions already use another one: pass "
                            "different lambdas for each Python type");
            return nullptr;
        }
    }
    return PyCapsule_New(const_cast<abi::exchange_api*>(&table::table), abi::exchange_api_capsule, nullptr);
}

}  // namespace FERRY_NAMESPACE::python
