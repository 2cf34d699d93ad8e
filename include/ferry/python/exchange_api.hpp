// ferry: the C exchange API of an array type (R69–R77).
#pragma once

#include <ferry/python/error.hpp>
#include <ferry/python/import.hpp>

#include <ferry/abi/exchange_api.hpp>
#include <ferry/exchange/from_dlpack.hpp>
#include <ferry/exchange/order.hpp>
#include <ferry/exchange/to_dlpack.hpp>

#include <source_location>
#include <utility>

namespace ferry::inline v0::python::detail {

/// The table of one array type: functions that translate every exception, so that none crosses (R77).
template <class T, class Unwrap, class Wrap, class BackEnd>
struct FERRY_HIDDEN exchange_table {
    /// Fresh memory like the prototype, of which only dtype, rank, shape and device are looked at. Needs neither the
    /// GIL nor any Python API (R72).
    static int allocate(DLTensor* prototype, DLManagedTensorVersioned** out, void* context,
                        void (*set_error)(void*, char const*, char const*)) noexcept {
        constexpr auto api = "managed_tensor_allocator";
        try {
            auto const where = std::source_location::current();
            if (prototype == nullptr || out == nullptr)
                ferry::detail::fail(errc::null_struct, api, message{"the prototype or the output is NULL"}, where);
            DLTensor wanted = *prototype;
            int probe = 0;
            wanted.data = &probe;  // whatever the prototype has there does not count
            wanted.strides = nullptr;
            wanted.byte_offset = 0;
            ferry::validate(wanted, flags::none, api, where);
            tensor_view const v{wanted, flags::none};
            BackEnd b{};
            if constexpr (allocates<T>) {
                if (!accepts_vectors<T> && v.dtype().lanes != 1)
                    ferry::detail::fail(errc::dtype, api,
                                        message{"dtype "}
                                            << v.dtype()
                                            << " has lanes, and this array type has no vector elements (R21)",
                                        where);
                *out = ferry::detail::make_raw<DLManagedTensorVersioned>(
                    array_traits<T>::allocate(v.dtype(), v.shape(), v.device()), view_of, v.device(), flags::none,
                    version::current, api, where);
            } else {
                if (!b.reaches(v.device())) ferry::detail::fail_no_back_end(v.device(), api, where);
                auto memory = b.allocate(v.device(), static_cast<std::size_t>(v.nbytes()), stream_token{});
                auto const view_of_memory = [&](auto& m) {
                    return tensor_view{static_cast<void*>(m.data()), v.dtype(), v.shape(), {}, v.device()};
                };
                *out = ferry::detail::make_raw<DLManagedTensorVersioned>(std::move(memory), view_of_memory, v.device(),
                                                                         flags::none, version::current, api, where);
            }
            return 0;
        } catch (std::bad_alloc const&) {
            set_error(context, "MemoryError", "managed_tensor_allocator: out of memory");
        } catch (error const& e) {
            set_error(context, e.code() == errc::out_of_memory ? "MemoryError" : "BufferError", e.what());
        } catch (std::logic_error const& e) {
            set_error(context, "ValueError", e.what());
        } catch (std::runtime_error const& e) {
            set_error(context, "BufferError", e.what());  // as in translate_exception
        } catch (std::exception const& e) {
            set_error(context, "RuntimeError", e.what());
        } catch (...) {
            set_error(context, "RuntimeError", "managed_tensor_allocator: an exception of unknown type");
        }
        return -1;
    }

    /// Owning, shared, unsynchronised (R73).
    static int from_object(void* object, DLManagedTensorVersioned** out) noexcept {
        try {
            auto const where = std::source_location::current();
            T& array = unwrap(object);
            tensor_view const v = view_of(array);
            catch_up(array, v.device());
            auto const d = negotiate(ferry::detail::properties_of(v, already_ready, shareable<T>),
                                     request{.stream = stream_token::no_sync()});
            BackEnd b{};
            *out = ferry::detail::export_array<DLManagedTensorVersioned>(
                array, d, v, already_ready, b, "managed_tensor_from_py_object_no_sync", where);
            return 0;
        } catch (...) {
            translate_exception();
            return -1;
        }
    }

    /// Takes the tensor over, whatever happens: on failure its deleter has run (R74). Padded elements are packed, in a
    /// copy, unless the array type knows them (R13). It is ready on the current stream of this thread (R76).
    static int to_object(DLManagedTensorVersioned* tensor, void** out) noexcept {
        try {
            auto const where = std::source_location::current();
            managed_tensor got = ferry::from_dlpack(tensor);
            auto const req = ferry::detail::with_stream<T>(request{}, got.device());
            if constexpr (!accepts_padded<T>)  // R13
                if (got.view().is_padded()) {
                    BackEnd b{};
                    gil_releasing_back_end patient{b};
                    got = ferry::detail::copy_if_needed<T>(std::move(got), req, patient, where);
                }
            auto const ready = ferry::detail::ready_for(req, already_ready, got.device());
            *out = Wrap{}(ferry::detail::consume<T>(std::move(got), ready, where));
            return *out != nullptr ? 0 : -1;
        } catch (...) {
            translate_exception();
            return -1;
        }
    }

    /// Borrowed until control returns, without an allocation: extents and strides are the array's own. A DLTensor
    /// cannot say that it is read-only, so read-only arrays are refused here and go by from_object (R75).
    static int borrow_object(void* object, DLTensor* out) noexcept {
        constexpr auto api = "dltensor_from_py_object_no_sync";
        try {
            auto const where = std::source_location::current();
            T& array = unwrap(object);
            tensor_view const v = view_of(array);
            ferry::detail::validate_view(v, api, where);
            if (v.is_read_only() || v.is_padded())
                ferry::detail::fail(
                    errc::read_only, api,
                    message{"a borrowed DLTensor has no flags and cannot say read-only or padded: use __dlpack__"},
                    where);
            if (v.strides().is_implicit() && v.rank() != 0)
                ferry::detail::fail(errc::strides, api,
                                    message{"the array keeps no strides that could be borrowed: use __dlpack__"},
                                    where);
            catch_up(array, v.device());
            bool const empty = v.is_empty();
            *out = DLTensor{empty ? nullptr : v.data(),
                            v.device().to_abi(),
                            v.rank(),
                            v.dtype().to_abi(),
                            const_cast<std::int64_t*>(v.shape().data()),
                            const_cast<std::int64_t*>(v.strides().data()),
                            empty ? 0 : v.byte_offset()};
            if (ignores_id(v.device().type)) out->device.device_id = 0;
            return 0;
        } catch (...) {
            translate_exception();
            return -1;
        }
    }

    /// The stream that this thread works on; NULL on the host (R76).
    static int current_stream([[maybe_unused]] DLDeviceType type, [[maybe_unused]] std::int32_t id,
                              void** out) noexcept {
        try {
            *out = nullptr;
            if constexpr (has_current_stream<T>) {
                device const where{static_cast<device_type>(type), id};
                if (where.type != device_type::cpu)
                    *out = reinterpret_cast<void*>(array_traits<T>::current_stream(where).native_handle());
            }
            return 0;
        } catch (...) {
            translate_exception();
            return -1;
        }
    }

    static constexpr abi::exchange_api table{{{version::current.major, version::current.minor}, nullptr},
                                             &allocate,
                                             &from_object,
                                             &to_object,
                                             &borrow_object,
                                             &current_stream};

   private:
    [[nodiscard]] static T& unwrap(void* object) {
        T* const array = Unwrap{}(static_cast<PyObject*>(object));
        if (array == nullptr)
            raise(PyExc_TypeError, "the object is not of the type that publishes this exchange table");
        return *array;
    }

    /// Who takes a tensor by the table uses it on the current stream of this thread (R76), which therefore waits for
    /// the one on which the array is ready. The host does not.
    static void catch_up([[maybe_unused]] T& array, [[maybe_unused]] device where) {
        if constexpr (has_ready_on<T> && has_current_stream<T>) {
            if (where.type == device_type::cpu) return;
            BackEnd b{};
            ferry::order(array_traits<T>::ready_on(array).on_device(where),
                         array_traits<T>::current_stream(where).on_device(where), b);
        }
    }
};

}  // namespace ferry::inline v0::python::detail
