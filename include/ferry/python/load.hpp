// ferry: imports the arguments of bound C++ functions, and keeps them alive for the call.
#pragma once

#include <ferry/python/capsule.hpp>
#include <ferry/python/detail/numpy_array.hpp>
#include <ferry/python/detail/published.hpp>
#include <ferry/python/error.hpp>
#include <ferry/python/import.hpp>
#include <ferry/python/options.hpp>

#include <ferry/base/detail/reporter.hpp>
#include <ferry/exchange/from_dlpack.hpp>
#include <ferry/exchange/to_dlpack.hpp>
#include <ferry/tensor/as.hpp>

#include <concepts>
#include <optional>
#include <stdexcept>  // exceptions of adapters
#include <type_traits>
#include <utility>

namespace FERRY_NAMESPACE::python::detail {

/// The array type of imports whose options name a stream. Its array_traits, below, pass that stream to the producer.
template <names_stream Options>
struct tensor_for_stream {
    managed_tensor tensor;
};

/// Clears the current Python error if it is a BufferError, TypeError or ValueError: the producer cannot export the
/// tensor.
/// \throws error_is_set  any other Python error, unchanged
inline void clear_refusal() {
    if (PyErr_ExceptionMatches(PyExc_BufferError) == 0 && PyErr_ExceptionMatches(PyExc_TypeError) == 0 &&
        PyErr_ExceptionMatches(PyExc_ValueError) == 0)
        throw error_is_set{};
    PyErr_Clear();
}

/// Calls `import()` and returns its result. Returns false if an error means that the argument is refused; the binding
/// library then tries the next overload. Other errors (KeyboardInterrupt, MemoryError, a lost device) propagate.
template <class Options, class Import>
[[nodiscard]] bool try_import(PyObject* argument, Import import) {
    require_main_interpreter();
    try {
        return (imports_other_protocol<typename Options::back_end> || supports_dlpack(argument)) && import();
    } catch (error_is_set const&) {
        clear_refusal();
    } catch (error const& e) {
        if (e.code() == errc::out_of_memory || e.code() == errc::driver || e.code() == errc::context_lost) throw;
    } catch (std::runtime_error const&) {  // an adapter refused the tensor
    } catch (std::logic_error const&) {
    }
    return false;
}

/// Imports a tensor as requested, for the stream of the options and through their back end (R56).
template <class Options>
[[nodiscard]] managed_tensor import_tensor(PyObject* x, request const& req) {
    typename Options::back_end b{};
    if constexpr (names_stream<Options>) return import_as<tensor_for_stream<Options>>(x, req, b).tensor;
    else return import_as<managed_tensor>(x, req, b);
}

/// Converts to the imported tensor, so that `emplace` constructs it in place; moving a tensor takes as long as
/// validating it.
template <class Options>
struct deferred_import {
    PyObject* from;
    request const& req;
    operator managed_tensor() const { return import_tensor<Options>(from, req); }
};

/// Returns `test(view)` for the view of the tensor in a capsule, which no other thread consumes meanwhile; false for
/// other objects.
template <class Test>
[[nodiscard]] bool peek(PyObject* x, Test test) {
    if (PyCapsule_CheckExact(x) == 0) return false;
    critical_section const alone{x};
    auto const v = look_into(x, flags::read_only);
    return v && test(*v);
}

/// Imports an argument into `out`. Returns false if a copy is needed and `may_copy` or the options forbid it.
/// copy_policy::always takes precedence over `may_copy`. `Layout`: layout of a copy that ferry makes.
template <class Options, layout Layout = layout::strided>
[[nodiscard]] bool import_argument(PyObject* x, bool may_copy, std::optional<managed_tensor>& out) {
    request req{.copy = Options::copy, .layout = Layout};
    auto const import = [&] { return out.emplace(deferred_import<Options>{x, req}), true; };
    auto const refuse = [&] { return out.reset(), false; };
    if constexpr (Options::copy == copy_policy::always) {
        if constexpr (Options::moves) req.device = Options::where;
        return import();
    } else {
        may_copy = may_copy && Options::copy != copy_policy::never;
        if constexpr (Options::moves) {
            auto const is_on_other_device = [](device dev) {
                return !ferry::detail::is_reachable_as(dev, Options::where);
            };
            auto const copy_to_device = [&] {
                if (!may_copy) return refuse();
                out.reset();
                req.device = Options::where;
                return import();
            };
            if (peek(x, [&](tensor_view const& v) { return is_on_other_device(v.device()); })) return copy_to_device();
            import();
            if (is_on_other_device(out->device())) return copy_to_device();
        } else {
            import();
        }
        if (!may_copy && out->is_copied() && PyCapsule_CheckExact(x) == 0) return refuse();  // R12
        return true;
    }
}

/// Loads an argument of type T, an array type whose array_traits has adopt. Not thread-safe; requires the GIL.
template <class T, class Options>
class loader {
   public:
    /// Imports `x` into `value`. Returns false if it is refused.
    /// \throws error_is_set  any other error of the producer
    /// \throws error  errc::out_of_memory, driver or context_lost
    [[nodiscard]] bool load(PyObject* x, bool may_copy) {
        static_assert(ferry::detail::is_consumer<T>());
        return try_import<Options>(x, [&] {
            typename Options::back_end b{};
            if constexpr (names_stream<Options>) {
                std::optional<managed_tensor> tensor;
                if (import_argument<Options>(x, may_copy, tensor)) {
                    request req;
                    auto const dev = tensor->device();
                    if (uses_streams(dev.type)) req.stream = Options::current_stream(dev);
                    auto const ready = ferry::detail::ready_after(req, dev);
                    value.emplace(ferry::from_dlpack<T>(std::move(*tensor), req, b, ready));
                }
            } else {
                request req{.copy =
                                may_copy || Options::copy == copy_policy::always ? Options::copy : copy_policy::never};
                if constexpr (Options::moves) req.device = Options::where;
                value.emplace(import_as<T>(x, req, b));
            }
            return value.has_value();
        });
    }

    std::optional<T> value;
};

template <class Options>
class loader<managed_tensor, Options> {
   public:
    [[nodiscard]] bool load(PyObject* x, bool may_copy) {
        return try_import<Options>(x, [&] { return import_argument<Options>(x, may_copy, value); });
    }

    std::optional<managed_tensor> value;
};

/// Owns the imported tensor; the view is valid as long as the loader exists. The element type, rank and access
/// are checked first, because most overloads differ in them. If copies are permitted, a read-only view receives a copy
/// of elements that are not contiguous or not aligned.
template <class T, int Rank, access_from Access, layout Layout, class Options>
class loader<typed_view<T, Rank, Access, Layout>, Options> {
   public:
    using view = typed_view<T, Rank, Access, Layout>;

    [[nodiscard]] bool load(PyObject* x, bool may_copy) {
        if constexpr (reads_numpy) {
            std::int64_t lists[2 * Rank + 1];
            void* data = nullptr;
            require_main_interpreter();
            auto const found = match_numpy(x, ferry::detail::target_of<T, Rank, Access, Layout>, lists, data);
            if (found == numpy_match::differs) return false;
            if (found == numpy_match::matches) {
                Py_INCREF(x);
                array_ = reference{x};
                value.emplace(ferry::detail::checked_by_as{},
                              tensor_view{data, dtype_of<T>, {lists, Rank}, {lists + Rank, Rank}});
                return true;
            }
        }
        return load_by_dlpack(x, may_copy);
    }

    std::optional<view> value;

   private:
    static constexpr bool reads_numpy =
        Rank != dynamic_rank && Access == access_from::host && !Options::moves && Options::copy != copy_policy::always;

    [[nodiscard]] FERRY_NOINLINE bool load_by_dlpack(PyObject* x, bool may_copy) {
        return try_import<Options>(x, [&] {
            if (peek(x, [&](tensor_view const& v) {
                    return !(is_match(v) && (Options::moves || can_view_or_copy(v, may_copy)));
                }))
                return false;
            if (!import_argument<Options, Layout>(x, may_copy, tensor_) || !is_match(tensor_->view()) ||
                !can_view_or_copy(tensor_->view(), may_copy))
                return tensor_.reset(), false;
            if (!value) copy();
            return true;
        });
    }

    void copy() {
        request req{.copy = copy_policy::always, .layout = Layout};
        auto const dev = tensor_->device();
        if constexpr (names_stream<Options>)
            if (uses_streams(dev.type)) req.stream = Options::current_stream(dev);
        auto const ready = ferry::detail::ready_after(req, dev);
        typename Options::back_end b{};
        gil_releasing_back_end releasing{b};
        tensor_ = ferry::to_dlpack(std::move(*tensor_), req, releasing, ready);
        value.emplace(tensor_->template as<T, Rank, Access, Layout>());
    }
    /// If a matching tensor can be viewed, sets `value` and returns true. If only a copy can be viewed, and copies are
    /// permitted, leaves `value` empty and returns true. Otherwise returns false.
    [[nodiscard]] bool can_view_or_copy(tensor_view const& v, bool may_copy) {
        value.reset();
        ferry::detail::record to{"ferry::as", detail::in_python};
        if (ferry::detail::check_as(v, ferry::detail::target_of<T, Rank, Access, Layout>, to)) {
            value.emplace(ferry::detail::checked_by_as{}, v);
            return true;
        }
        auto const why = to.outcome.error().code();
        bool const copy_helps = std::is_const_v<T> && (why == errc::strides || why == errc::alignment);
        return copy_helps && may_copy && Options::copy != copy_policy::never;
    }
    [[nodiscard]] static bool is_match(tensor_view const& v) noexcept {
        return v.dtype() == dtype_of<T> && (Rank == dynamic_rank || v.rank() == Rank) &&
               (std::is_const_v<T> || !v.is_read_only());
    }

    std::optional<managed_tensor> tensor_;
    reference array_;
};

}  // namespace FERRY_NAMESPACE::python::detail

/// Passes the stream of the options to the producer.
template <class Options>
struct ferry::array_traits<ferry::python::detail::tensor_for_stream<Options>> {
    static constexpr bool vector_elements = true, padded_elements = true;
    static ferry::python::detail::tensor_for_stream<Options> adopt(managed_tensor m) { return {std::move(m)}; }
    static stream_token current_stream(device d) { return Options::current_stream(d); }
};
