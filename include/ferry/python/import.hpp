// ferry: imports from Python objects and capsules.
#pragma once

#include <ferry/python/arguments.hpp>
#include <ferry/python/capsule.hpp>
#include <ferry/python/detail/back_end.hpp>
#include <ferry/python/error.hpp>

#include <ferry/base/flags.hpp>
#include <ferry/exchange/from_dlpack.hpp>
#include <ferry/space/detail/operations.hpp>

#include <concepts>
#include <optional>
#include <source_location>
#include <type_traits>
#include <utility>

namespace FERRY_NAMESPACE::python {
namespace detail {

/// An imported tensor and the stream on which it is ready; already_ready if no work is pending. The tensor is empty if
/// the object has no protocol. The functions below write it to an object of their caller, because a tensor that is
/// returned through several functions is copied in each.
struct imported {
    managed_tensor tensor{};
    stream_token ready_on = already_ready;
    /// Flags of a legacy tensor, whose struct contains none; the caller sets them before the import.
    flags assumed = flags::read_only;
};

/// A back end that makes a device current for a scope, as some producers require (R42): `make_current(device)` returns
/// an object whose destructor restores the previous device. For device types that the back end does not support, the
/// function does nothing.
struct has_selection {
    template <class BackEnd>
    static constexpr bool of = requires(BackEnd& b, device dev) { b.make_current(dev); };
};
template <class BackEnd>
concept selects_device = !std::is_void_v<ferry::detail::operations_found<has_selection, BackEnd>>;

/// A back end that imports objects without `__dlpack__` through another protocol: `import_other_protocol(x)` returns
/// std::nullopt for objects without that protocol.
struct has_other_protocol {
    template <class BackEnd>
    static constexpr bool of = requires(BackEnd& b, PyObject* x) {
        { b.import_other_protocol(x) } -> ferry::detail::yields<std::optional<imported>>;
    };
};
template <class BackEnd>
concept imports_other_protocol = !std::is_void_v<ferry::detail::operations_found<has_other_protocol, BackEnd>>;

struct importer;
struct published;

/// What an import needs of the consumer and of the back end. An operation that they do not have is null.
struct import_operations {
    ferry::detail::accepted_elements accepted;
    stream_token (*current_stream)(device);
    bool (*reaches)(void*, device);
    void (*select)(void*, device, void (*import)(void*), void*);  // makes the device current while `import` runs
    void (*import_other)(void*, PyObject*, imported&);
    void (*copy_by_producer)(importer const&, PyObject*, published const&, request const&, device, imported&);
    bool (*finish)(importer const&, request const&, imported&, ferry::detail::reporter);
};

/// The consumer and the back end of an import, whose code does not depend on their types.
struct importer {
    import_operations const& its;
    void* back_end;
};

/// Returns a request with the current stream of the consumer; see ferry::detail::with_stream.
[[nodiscard]] inline request with_stream(importer const& by, request req, device dev) {
    device const target = req.device.value_or(dev);
    if (by.its.current_stream != nullptr && req.stream.is_none() && uses_streams(target.type))
        req.stream = by.its.current_stream(target);
    return req;
}

/// Carries out the rest of a request for an imported tensor. Returns false after an error that `r` records.
template <class Consumer, class BackEnd>
bool finish_import(BackEnd& b, importer const& by, request const& given, imported& got, ferry::detail::reporter r) {
    request const req = with_stream(by, given, got.tensor.device());
    gil_releasing_back_end const releasing{b};
    auto result = ferry::detail::finish_import<Consumer, true>(std::move(got.tensor), req, got.ready_on, releasing, r,
                                                               by.its.accepted);
    if (!result) return false;
    got.tensor = std::move(result);
    return true;
}

/// The functions of imports that call the back end. Compiled once for each type that compiled_back_end returns.
template <class BackEnd>
struct FERRY_HIDDEN imports_through {
    FERRY_COLD static void copy_by_producer(BackEnd const& b, PyObject* x, published const& type, request const& req,
                                            device at, imported& got);
    FERRY_COLD static bool finish(BackEnd const& b, importer const& by, request const& req, imported& got,
                                  ferry::detail::reporter r);
};

template <class T, class BackEnd>
FERRY_HIDDEN inline constexpr import_operations operations_of = [] {
    using ferry::detail::at, ferry::detail::call, ferry::detail::find_operations;
    import_operations its{};
    its.accepted = ferry::detail::accepted_by<T>;
    if constexpr (has_current_stream<T>)
        its.current_stream = [](device dev) { return array_traits<T>::current_stream(dev); };
    if constexpr (!std::derived_from<compiled_type<BackEnd>, host_back_end>) {
        its.reaches = [](void* b, device dev) { return at<BackEnd>(b).reaches(dev); };
        its.copy_by_producer = [](importer const& by, PyObject* x, published const& type, request const& req,
                                  device where, imported& got) {
            imports_through<compiled_type<BackEnd>>::copy_by_producer(compiled_back_end(at<BackEnd>(by.back_end)), x,
                                                                      type, req, where, got);
        };
    }
    if constexpr (selects_device<BackEnd>)
        its.select = [](void* b, device dev, void (*import)(void*), void* context) {
            auto& selecting = *find_operations<has_selection>(at<BackEnd>(b));
            [[maybe_unused]] auto const current = call([&] { return selecting.make_current(dev); });
            import(context);
        };
    if constexpr (imports_other_protocol<BackEnd>)
        its.import_other = [](void* b, PyObject* x, imported& got) {
            auto& other = *find_operations<has_other_protocol>(at<BackEnd>(b));
            if (auto found = call([&] { return other.import_other_protocol(x); })) got = std::move(*found);
        };
    its.finish = [](importer const& by, request const& req, imported& got, ferry::detail::reporter r) {
        auto& b = at<BackEnd>(by.back_end);
        if constexpr (allocates<T>) return finish_import<T>(b, by, req, got, r);
        else return imports_through<compiled_type<BackEnd>>::finish(compiled_back_end(b), by, req, got, r);
    };
    return its;
}();

template <class T, class BackEnd>
[[nodiscard]] importer importer_for(BackEnd& b) noexcept {
    return {operations_of<T, BackEnd>, const_cast<void*>(static_cast<void const*>(&b))};
}

/// Imports an object, and carries out the part of the request that the producer did not.
/// \throws error_is_set, error  TypeError for an object without a protocol; errc::copy_needed for a copy despite
///                             copy=False (R54)
FERRY_PYTHON_INLINE void import_object(PyObject* x, request const& req, importer const& by, imported& got);
/// Imports an object for try_from_python. Throws errors of the producer.
[[nodiscard]] FERRY_PYTHON_INLINE ferry::result<void> try_import(PyObject* x, request const& req, importer const& by,
                                                                 char const* api, imported& got);
/// Returns the error for the current exception, and sets `raised` to the Python exception, if there is one.
[[nodiscard]] FERRY_PYTHON_INLINE error caught_error(reference* raised, char const* api,
                                                     std::source_location where) noexcept;
/// Checks a tensor that is ready on the current stream of the consumer, packs its elements if the consumer needs it
/// (R13), and sets the stream.
FERRY_PYTHON_INLINE void accept_struct(importer const& by, imported& got);

/// See from_python.
template <class T, class BackEnd>
[[nodiscard]] T import_as(PyObject* x, request const& req, BackEnd& b, flags assumed = flags::read_only) {
    static_assert(ferry::detail::is_consumer<T>());
    imported got{.assumed = assumed};
    import_object(x, req, importer_for<T>(b), got);
    return ferry::detail::consume<T>(std::move(got.tensor), got.ready_on);
}

}  // namespace detail

/// Returns whether an object can be imported: a capsule, or an instance of a type with `__dlpack__` or an exchange
/// table. The answer for a type is cached, so that callers that try several protocols build no error. Requires the GIL.
///
/// \param x  any object
/// \return   whether it can be imported, unless the import fails
/// \throws error_is_set  an exception that the look-up raises
[[nodiscard]] FERRY_PYTHON_INLINE bool supports_dlpack(PyObject* x);

/// Imports a Python object as a C++ array (R42, R43, R56–R58). Passes the request to the producer, validates the
/// tensor, makes the copies that the producer did not make, and calls `array_traits<T>::adopt`.
///
/// Requires the GIL, and releases it during waits, device copies and large host copies. After a failure, an imported
/// tensor has been released exactly once, and a capsule that was not consumed is unchanged.
///
/// \tparam T  consumer: managed_tensor, or an array type with array_traits<T>::adopt
/// \param x        DLPack capsule, or object with `__dlpack__`, `__dlpack_c_exchange_api__` or another protocol that
///                 the back end imports
/// \param req      request
/// \param b        back end that copies, orders and waits
/// \param assumed  flags of a legacy tensor, as for from_capsule
/// \return         array
/// \throws error_is_set  an exception of the producer; TypeError for an object without a protocol; ValueError for a
///                       capsule that cannot be used; BufferError for a PyTorch tensor that DLPack cannot represent
/// \throws error  errors of ferry::from_dlpack; errc::copy_needed if the producer copied despite copy=False (R54);
///                errc::device if two calls to `__dlpack__` export on different devices (R37)
template <class T, class BackEnd = host_back_end>
[[nodiscard]] T from_python(PyObject* x, request const& req, BackEnd&& b = {}, flags assumed = flags::read_only) {
    detail::require_main_interpreter();
    return detail::import_as<T>(x, req, b, assumed);
}
// clang-format off
FERRY_DELETED_BRACED(from_python, try_from_python, (PyObject*, ferry::detail::wrong_request, Rest&&...), "streams are neither integers nor pointers: pass stream_token::cuda(the cudaStream_t), stream_token::from_cuda_handle(a void*), stream_token::cuda_legacy_default(), stream_token::rocm(the hipStream_t), or {} for no stream",
    template <class T, class... Rest>);
// clang-format on

}  // namespace FERRY_NAMESPACE::python

#if !defined(FERRY_SEPARATE_COMPILATION)
#include <ferry/python/detail/import.ipp>
#endif
