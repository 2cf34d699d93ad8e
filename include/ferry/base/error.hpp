// ferry: error codes, messages and the exception class.
#pragma once

#include <ferry/config.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <source_location>
#include <type_traits>

namespace FERRY_NAMESPACE {

/// Error codes. Programs should compare the code; the text of an error is for users and may change.
enum class errc : int {
    ok = 0,
    version,               ///< the major version of the struct is not supported (R2)
    null_struct,           ///< a null pointer instead of a tensor
    rank,                  ///< negative (R32), not the expected rank, or above the maximum
    shape,                 ///< a negative or missing extent (R25, R32), or not the expected shape
    strides,               ///< strides that the operation does not support
    overflow,              ///< a number of elements or bytes that exceeds 63 bits (R32)
    null_data,             ///< a null data pointer in a tensor that has elements (R26)
    alignment,             ///< the first element is not aligned for its type (R31)
    dtype,                 ///< unknown, malformed, or not the requested type (R16–R21)
    device,                ///< unknown, or not supported by the operation (R3, R40)
    not_accessible,        ///< the host cannot access the memory
    read_only,             ///< write access to read-only data (R11)
    flags,                 ///< a flag that the operation does not support (R13)
    copy_needed,           ///< a copy is necessary, but the request or the back end does not allow it (R54)
    not_shareable,         ///< the owner can be neither moved nor shared
    stream,                ///< a stream that is missing, or not valid for the device (R43–R46, R48)
    no_backend,            ///< no back end for the device was passed
    out_of_memory,         ///< an allocation failed
    out_of_range,          ///< an index outside its extent
    argument,              ///< any other invalid argument
    consumed,              ///< the tensor was moved from, or its capsule was consumed (R63)
    driver,                ///< the SDK of a back end reported an error
    context_lost,          ///< a sticky error: the device is unusable in this process
    no_driver,             ///< no usable driver or device
    foreign_pointer,       ///< memory that the driver did not allocate, or memory of another kind
    no_peer_access,        ///< two devices cannot access each other's memory
    capturing,             ///< the stream is being captured into a graph
    not_exportable,        ///< memory for which no IPC handle exists
    same_process,          ///< this process created the handle; attach through the ferry::ipc::session that shared it
    stale_handle,          ///< a handle of freed memory
    already_mapped,        ///< the driver has mapped this memory under another handle
    device_not_found,      ///< no local device has this UUID
    no_context,            ///< no device context is current, and none could be made current
    unsupported_platform,  ///< the system or the device does not support this method of sharing memory
    exporter_gone,         ///< the exporter has closed the memory, or has terminated
    permission,            ///< the system or the other process denied access
    bad_descriptor,        ///< a descriptor that is malformed, of another version, or out of bounds
    bad_column,            ///< a column whose type, lengths, buffers or values are inconsistent
    foreign_exception,     ///< an exception that is not a ferry::error; only catch_into and try_from_python report it
    busy,                  ///< memory that cannot be frozen because it is mapped with write access
};

/// Returns the name of an error code.
///
/// \param code  error code
/// \return      "dtype" for errc::dtype; static storage
[[nodiscard]] FERRY_COLD constexpr char const* name(errc code) noexcept {
    char const* text =
        "ok\0version\0null_struct\0rank\0shape\0strides\0overflow\0null_data\0alignment\0dtype\0device\0"
        "not_accessible\0read_only\0flags\0copy_needed\0not_shareable\0stream\0no_backend\0out_of_memory\0"
        "out_of_range\0argument\0consumed\0driver\0context_lost\0no_driver\0foreign_pointer\0no_peer_access\0"
        "capturing\0not_exportable\0same_process\0stale_handle\0already_mapped\0device_not_found\0no_context\0"
        "unsupported_platform\0exporter_gone\0permission\0bad_descriptor\0bad_column\0foreign_exception\0busy\0"
        "unknown";
    auto i = static_cast<unsigned>(code);
    if (i > static_cast<unsigned>(errc::busy)) i = static_cast<unsigned>(errc::busy) + 1;
    for (; i != 0; --i)
        while (*text++ != '\0') {
        }
    return text;
}

/// Text in a buffer of fixed size; text that does not fit is truncated. Never allocates, so that it can report
/// out-of-memory errors.
class inplace_text {
   public:
    /// Constructs an empty text.
    constexpr inplace_text() = default;
    /// Constructs a text.
    ///
    /// \param text  initial text; null means empty
    FERRY_COLD constexpr inplace_text(char const* text) noexcept { *this << text; }

    /// Appends text.
    ///
    /// \param text  text to append; null means empty
    /// \return      this object
    FERRY_COLD constexpr inplace_text& operator<<(char const* text) noexcept {
        if (text == nullptr) return *this;
        if (std::is_constant_evaluated()) {
            while (*text != '\0' && size_ + 1 < sizeof text_) text_[size_++] = *text++;
            return *this;
        }
        std::size_t const length = std::strlen(text), free = sizeof text_ - 1 - size_;
        std::size_t const count = length < free ? length : free;
        std::memcpy(text_ + size_, text, count);
        size_ += count;
        return *this;
    }
    /// Appends a character.
    ///
    /// \param c  character to append
    /// \return   this object
    constexpr inplace_text& operator<<(char c) noexcept {
        char const one[] = {c, '\0'};
        return *this << one;
    }
    /// Appends a number, in decimal.
    ///
    /// \param n  number to append
    /// \return   this object
    FERRY_COLD constexpr inplace_text& operator<<(std::uint64_t n) noexcept {
        char digits[21] = {};
        char* p = digits + 20;
        do *--p = static_cast<char>('0' + n % 10);
        while ((n /= 10) != 0);
        return *this << p;
    }
    /// Appends a number, in decimal.
    ///
    /// \param n  number to append
    /// \return   this object
    FERRY_COLD constexpr inplace_text& operator<<(std::int64_t n) noexcept {
        if (n < 0) return *this << "-" << (~static_cast<std::uint64_t>(n) + 1);
        return *this << static_cast<std::uint64_t>(n);
    }
    /// Appends a number, in decimal.
    ///
    /// \param n  number to append
    /// \return   this object
    constexpr inplace_text& operator<<(int n) noexcept { return *this << std::int64_t{n}; }
    /// Appends a number, in decimal.
    ///
    /// \param n  number to append
    /// \return   this object
    constexpr inplace_text& operator<<(unsigned n) noexcept { return *this << std::uint64_t{n}; }

    /// Appends another text.
    ///
    /// \param text  text to append
    /// \return      this object
    constexpr inplace_text& operator<<(inplace_text const& text) noexcept { return *this << text.text_; }

    /// Returns the text.
    ///
    /// \return  null-terminated text; valid while this object exists
    [[nodiscard]] constexpr char const* c_str() const noexcept { return text_; }

   private:
    char text_[400] = {};
    std::size_t size_ = 0;
};

#ifndef FERRY_TERSE_ERRORS
/// The cause of an error and the fix. With FERRY_TERSE_ERRORS, a type that ignores all text, so that the object code
/// contains no sentences.
using message = inplace_text;
namespace detail {
/// A constant text, which FERRY_TERSE_ERRORS removes.
using sentence = char const*;
inline constexpr bool has_sentences = true;
}  // namespace detail
#else
namespace detail {
inline constexpr bool has_sentences = false;
struct sentence {
    constexpr sentence(char const*) noexcept {}
    constexpr operator char const*() const noexcept { return ""; }
};
}  // namespace detail
class message {
   public:
    constexpr message() = default;
    template <class T>
    constexpr message(T const&) noexcept {}
    template <class T>
    constexpr message& operator<<(T const&) noexcept {
        return *this;
    }
};
constexpr inplace_text& operator<<(inplace_text& out, message const&) noexcept { return out; }
#endif

/// The exception that ferry throws. Copying neither allocates nor throws.
class FERRY_VISIBLE error : public std::exception {
   public:
    /// Constructs an error. Does not allocate.
    ///
    /// \param code   error code
    /// \param api    name of the public function that reports the error; static storage; null means empty
    /// \param text   description of the error, with the fix
    FERRY_COLD error(errc code, char const* api, inplace_text const& text,
                     std::source_location where = std::source_location::current()) noexcept
        : error{code, api, text.c_str(), where} {}
#ifdef FERRY_TERSE_ERRORS
    error(errc code, char const* api, message, std::source_location where = std::source_location::current()) noexcept
        : error{code, api, static_cast<char const*>(nullptr), where} {}
#endif
    /// Constructs an error from one text. Does not allocate.
    ///
    /// \param code   error code
    /// \param api    name of the public function that reports the error; static storage; null means empty
    /// \param text   description of the error, with the fix; null means empty
    FERRY_COLD error(errc code, char const* api, char const* text,
                     std::source_location where = std::source_location::current()) noexcept
        : code_{code}, api_{api != nullptr ? api : ""}, where_{where} {
#ifdef FERRY_TERSE_ERRORS
        if (text == nullptr) text = name(code);
#endif
        text_ << api << ": " << text;
    }

    /// Copies an error. Does not allocate.
    ///
    /// \param other  error
    FERRY_COLD error(error const& other) noexcept
        : std::exception{other}, code_{other.code_}, api_{other.api_}, where_{other.where_}, text_{other.text_} {}
    /// Copies an error. Does not allocate.
    error& operator=(error const&) noexcept = default;

    /// Returns the error code.
    [[nodiscard]] errc code() const noexcept { return code_; }
    /// Returns the name of the public function that reports the error.
    ///
    /// \return  "ferry::from_dlpack", for example; static storage
    [[nodiscard]] char const* api() const noexcept { return api_; }
    /// Returns the source location of the call.
    [[nodiscard]] std::source_location const& where() const noexcept { return where_; }
    /// Returns the name of the function and the text.
    ///
    /// \return  "api: text"; valid while this object exists
    [[nodiscard]] char const* what() const noexcept override { return text_.c_str(); }
    /// Returns the text without the name of the function.
    ///
    /// \return  text of the constructor, as far as it fits; valid while this object exists
    [[nodiscard]] char const* text() const noexcept {
        char const* const all = text_.c_str();
        std::size_t const begin = std::strlen(api_) + 2, length = std::strlen(all);
        return all + (begin < length ? begin : length);  // a long name leaves no room for text
    }

   private:
    errc code_;
    char const* api_;
    std::source_location where_;
    inplace_text text_;
};

/// A parameter type for source locations. Cannot be constructed from `{}`, so that `{}` selects the overload with a
/// request or a stream at the same position.
struct call_site {
    std::source_location location;
    /// Converts a source location.
    constexpr call_site(std::source_location where) noexcept : location{where} {}
};

#if FERRY_HAS_EXCEPTIONS
namespace detail {

[[noreturn]] FERRY_COLD inline void fail(errc code, char const* api, inplace_text const& text,
                                         std::source_location where = std::source_location::current()) {
    throw error{code, api, text, where};
}
#ifdef FERRY_TERSE_ERRORS
[[noreturn]] FERRY_COLD inline void fail(errc code, char const* api, message,
                                         std::source_location where = std::source_location::current()) {
    throw error{code, api, message{}, where};
}
#endif

}  // namespace detail
#endif
}  // namespace FERRY_NAMESPACE
