// ferry: what a bound C++ function takes from Python: one import for each argument, which the call
// keeps alive.
#pragma once

#include <ferry/python/capsule.hpp>
#include <ferry/python/import.hpp>
#include <ferry/python/options.hpp>
#include <ferry/python/published.hpp>
#include <ferry/python/refusal.hpp>

#include <ferry/exchange/from_dlpack.hpp>
#include <ferry/exchange/to_dlpack.hpp>
#include <ferry/tensor/typed_view.hpp>

#include <concepts>
#include <optional>
#include <stdexcept>  // an adapter may throw what its library throws
#include <type_traits>
#include <utility>

namespace ferry::inline v0::python::detail {

/// A tensor on its way to a function that says on which stream it works.
template <names_stream Options>
struct arriving {
    managed_tensor tensor;
};

/// Whether an object is worth asking; classes and plain values are not.
[[nodiscard]] inline bool speaks_dlpack(PyObject* x) {
    return PyCapsule_CheckExact(x) != 0 || has_dlpack(x) || find_exchange_api(x) != nullptr;
}

/// Where a tensor in a capsule says what it is, so that the capsule is taken only when that fits
/// (R62): a wrong overload must not use it up. Nothing when it is no capsule, or not one that can
/// be read; who takes it says why.
[[nodiscard]] inline std::optional<tensor_view> peek(PyObject* capsule) noexcept {
    if (PyCapsule_CheckExact(capsule) == 0) return {};
    try {
        if (auto const* const raw = struct_in<DLManagedTensorVersioned>(capsule)) {
            ferry::validate(*raw, "from_dlpack");
            return tensor_view{raw->dl_tensor, flags{raw->flags}};
        }
        if (auto const* const raw = struct_in<DLManagedTensor>(capsule)) {
            ferry::validate(raw->dl_tensor, flags::none, "from_dlpack");
            return tensor_view{raw->dl_tensor, flags::read_only};  // R15
        }
    } catch (error const&) {
    }
    return {};
}

/// Runs an import of an argument: true when it was taken. Errors that say that this tensor does not
/// fit here are noted, and the next overload may try; others (interrupts, memory, lost devices) go
/// through.
template <class Options, class Import>
[[nodiscard]] bool attempt(PyObject* argument, Import import) {
    try {
        if (imports_other_protocol<typename Options::back_end> || speaks_dlpack(argument)) return import();
        note(argument, [&] { return message{Py_TYPE(argument)->tp_name} << " is no tensor: it has no __dlpack__"; });
    } catch (error_is_set const&) {
        note_error(argument);
    } catch (error const& e) {
        if (e.code() == errc::out_of_memory || e.code() == errc::driver || e.code() == errc::context_lost) throw;
        note(argument, [&] { return message{e.what()}; });
    } catch (std::runtime_error const& e) {
        note(argument, [&] { return message{e.what()}; });  // how an adapter says that the data cannot travel
    } catch (std::logic_error const& e) {
        note(argument, [&] { return message{e.what()}; });
    }
    return false;
}

/// Imports as the options say. Without a word of devices and copies the tensor comes as it is
/// (R56).
template <class Options>
[[nodiscard]] managed_tensor bring(PyObject* x, request const& req) {
    typename Options::back_end b{};
    if constexpr (names_stream<Options>) return from_python<arriving<Options>>(x, req, b).tensor;
    else return from_python<managed_tensor>(x, req, b);
}

/// What an import gives, made where it is to be: moving tensors about would cost as much as checking them.
template <class Options>
struct brought {
    PyObject* from;
    request const& req;
    operator managed_tensor() const { return bring<Options>(from, req); }
};

/// A tensor for an argument, into `out`. False, with the reason noted, when only a copy would do and none may be made.
template <class Options>
[[nodiscard]] bool import_argument(PyObject* x, bool may_copy, std::optional<managed_tensor>& out) {
    request req{.copy = Options::copy};
    auto const import = [&] { return out.emplace(brought<Options>{x, req}), true; };
    auto const refuse = [&](auto why) { return note(x, why), out.reset(), false; };
    if constexpr (Options::copy == copy_policy::always) {
        if constexpr (Options::moves) req.device = Options::where;
        return import();
    } else {
        may_copy = may_copy && Options::copy != copy_policy::never;
        if constexpr (Options::moves) {
            auto const is_elsewhere = [](device place) {
                return !ferry::detail::is_reachable_as(place, Options::where);
            };
            auto const copy_from = [&](device place) {
                if (!may_copy) return refuse([&] { return elsewhere(place, Options::where); });
                out.reset();
                req.device = Options::where;
                return import();
            };
            if (auto const given = peek(x); given && is_elsewhere(given->device())) return copy_from(given->device());
            import();
            if (auto const place = out->device(); is_elsewhere(place)) return copy_from(place);
        } else {
            import();
        }
        if (!may_copy && out->is_copied() && PyCapsule_CheckExact(x) == 0)
            return refuse([] { return message{"its producer copied, and a copy is not wanted here"}; });
        return true;
    }
}

/// Loads an argument of type T, an array that adopts tensors. Not thread-safe; the GIL is held.
template <class T, class Options>
class loader {
   public:
    /// False: refused, and why is noted. What is no refusal is thrown: error_is_set,
    /// std::bad_alloc, and what adopt throws else.
    [[nodiscard]] bool load(PyObject* x, bool may_copy) {
        static_assert(ferry::detail::is_consumer<T>());
        return attempt<Options>(x, [&] {
            typename Options::back_end b{};
            if constexpr (names_stream<Options>) {
                std::optional<managed_tensor> got;
                if (import_argument<Options>(x, may_copy, got)) {
                    request req;
                    auto const place = got->device();
                    if (place.type != device_type::cpu) req.stream = Options::current_stream(place);
                    auto const ready = ferry::detail::ready_after(req, place);
                    value.emplace(ferry::from_dlpack<T>(std::move(*got), req, b, ready));
                }
            } else {
                request req{.copy =
                                 may_copy || Options::copy == copy_policy::always ? Options::copy : copy_policy::never};
                if constexpr (Options::moves) req.device = Options::where;
                value.emplace(from_python<T>(x, req, b));
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
        return attempt<Options>(x, [&] { return import_argument<Options>(x, may_copy, value); });
    }

    std::optional<managed_tensor> value;
};

/// Keeps the import that the view looks at: the view ends with the loader. A view of another type,
/// rank or constness is refused before anything else happens, so that other overloads cost little;
/// where a copy may be made, what reads only gets one when the elements are not contiguous or not
/// aligned.
template <class T, int Rank, access Access, layout Layout, class Options>
class loader<typed_view<T, Rank, Access, Layout>, Options> {
   public:
    using view = typed_view<T, Rank, Access, Layout>;

    [[nodiscard]] bool load(PyObject* x, bool may_copy) {
        return attempt<Options>(x, [&] {
            if (auto const given = peek(x);
                given && !(is_near(x, *given) && (Options::moves || suits(x, *given, may_copy))))
                return false;
            if (!import_argument<Options>(x, may_copy, tensor_) || !is_near(x, tensor_->view()) ||
                !suits(x, tensor_->view(), may_copy))
                return tensor_.reset(), false;
            if (!value) copy();
            return true;
        });
    }

    std::optional<view> value;

   private:
    void copy() {
        request req{.copy = copy_policy::always};
        auto const place = tensor_->device();
        if constexpr (names_stream<Options>)
            if (place.type != device_type::cpu) req.stream = Options::current_stream(place);
        auto const ready = ferry::detail::ready_after(req, place);
        typename Options::back_end b{};
        gil_releasing_back_end patient{b};
        tensor_ = ferry::to_dlpack(std::move(*tensor_), req, patient, ready);
        value.emplace(tensor_->template as<T, Rank, Access, Layout>());
    }
    /// Whether a tensor that is near can be viewed, which makes the view, or a copy of it can and
    /// may be made.
    [[nodiscard]] bool suits(PyObject* x, tensor_view const& v, bool may_copy) {
        value.reset();
        try {
            value.emplace(ferry::as<T, Rank, Access, Layout>(v));
        } catch (error const& e) {
            bool const curable = std::is_const_v<T> && (e.code() == errc::strides || e.code() == errc::alignment);
            if (curable && may_copy && Options::copy != copy_policy::never) return true;
            note(x, [&] { return misfit(e, v); });
            return false;
        }
        return true;
    }
    [[nodiscard]] static bool is_near(PyObject* x, tensor_view const& v) noexcept {
        bool const is_meant = v.dtype() == dtype_of<T> && (Rank == dynamic_rank || v.rank() == Rank);
        if (is_meant && (std::is_const_v<T> || !v.is_read_only())) [[likely]]
            return true;
        note(x, mismatch{v.dtype(), dtype_of<T>, v.rank(), Rank == dynamic_rank ? v.rank() : Rank});
        return false;
    }

    std::optional<managed_tensor> tensor_;
};

}  // namespace ferry::inline v0::python::detail

/// The stream of an option is the one that the tensor is imported for.
template <class Options>
struct ferry::array_traits<ferry::python::detail::arriving<Options>> {
    using arriving = ferry::python::detail::arriving<Options>;
    static constexpr bool vector_elements = true, padded_elements = true;
    static arriving adopt(managed_tensor m) { return {std::move(m)}; }
    static stream_token current_stream(device d) { return Options::current_stream(d); }
};
