// ferry: how failures are reported.
#pragma once

#include <ferry/config.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <source_location>

namespace ferry::inline v0 {

/// What went wrong, for code that decides; the message is for people.
enum class errc : int {
    ok = 0,
    version,           ///< the struct has another major version (R2)
    null_struct,       ///< a null pointer where a tensor is needed
    rank,              ///< negative, or not the rank that was asked for (R25, R32)
    shape,             ///< a negative or missing extent (R32)
    strides,           ///< strides that this operation cannot take
    overflow,          ///< the number of elements or bytes does not fit (R32)
    null_data,         ///< no memory behind a tensor that has elements (R26)
    alignment,         ///< the first element is not aligned for its type (R31)
    dtype,             ///< unknown, malformed, or not the type that was asked for (R16–R21)
    device,            ///< unknown, or not where this operation works (R3, R40)
    not_accessible,    ///< the host cannot read this memory
    read_only,         ///< writing was asked for and is not allowed (R11)
    flags,             ///< a flag that this operation cannot honour (R13)
    copy_needed,       ///< copy_policy::never, but only a copy would do (R54)
    not_shareable,     ///< the owner can be neither moved in nor shared
    stream,            ///< a token that does not fit the device (R44–R46, R48)
    no_backend,        ///< memory off the host, and no back end was passed
    out_of_memory,     ///< a memory space could not allocate
    out_of_range,      ///< an index beyond its extent
    argument,          ///< any other bad argument
    consumed,          ///< the tensor was moved from, or its capsule used (R63)
    driver,            ///< a back end's SDK reported an error
    context_lost,      ///< a device is gone for this process; nothing on it works any more
    no_driver,         ///< no driver or device that this program can use
    foreign_pointer,   ///< memory that the driver does not know, or knows as something else
    no_peer_access,    ///< two devices cannot read each other's memory
    capturing,         ///< a stream is being captured into a graph
    not_exportable,    ///< memory that no handle can name for another process
    same_process,      ///< a handle of this very process, which only the session that made it can turn into an alias
    stale_handle,      ///< a handle of memory that was freed since
    already_mapped,    ///< the driver has this memory open already, under another handle
    device_not_found,  ///< no device here has this UUID
    no_context,        ///< no device context is current, and none could be made so
    unsupported_platform,  ///< the system, or the device, cannot share memory this way
    exporter_gone,         ///< the process that shares has closed the memory, or is gone
    permission,            ///< the system, or the other process, refuses
    bad_descriptor,        ///< another version, truncated, a wrong checksum, or bounds that do not hold
    bad_column,            ///< a column whose type, lengths, buffers or values contradict each other
};

/// The name of the code: "dtype" for errc::dtype.
[[nodiscard]] constexpr char const* name(errc code) noexcept {
    constexpr char const* names[] = {"ok",
                                     "version",
                                     "null_struct",
                                     "rank",
                                     "shape",
                                     "strides",
                                     "overflow",
                                     "null_data",
                                     "alignment",
                                     "dtype",
                                     "device",
                                     "not_accessible",
                                     "read_only",
                                     "flags",
                                     "copy_needed",
                                     "not_shareable",
                                     "stream",
                                     "no_backend",
                                     "out_of_memory",
                                     "out_of_range",
                                     "argument",
                                     "consumed",
                                     "driver",
                                     "context_lost",
                                     "no_driver",
                                     "foreign_pointer",
                                     "no_peer_access",
                                     "capturing",
                                     "not_exportable",
                                     "same_process",
                                     "stale_handle",
                                     "already_mapped",
                                     "device_not_found",
                                     "no_context",
                                     "unsupported_platform",
                                     "exporter_gone",
                                     "permission",
                                     "bad_descriptor",
                                     "bad_column"};
    auto const i = static_cast<std::size_t>(code);
    return i < sizeof names / sizeof names[0] ? names[i] : "unknown";
}

/// A sentence in a buffer of fixed size: building it allocates nothing, so it works when memory is short. What does not
/// fit is cut.
class message {
   public:
    constexpr message() = default;
    constexpr message(char const* text) noexcept { *this << text; }

    constexpr message& operator<<(char const* text) noexcept {
        while (text != nullptr && *text != '\0' && size_ + 1 < sizeof text_) text_[size_++] = *text++;
        return *this;
    }
    constexpr message& operator<<(char c) noexcept {
        char const one[] = {c, '\0'};
        return *this << one;
    }
    constexpr message& operator<<(std::uint64_t n) noexcept {
        char digits[21] = {};
        char* p = digits + 20;
        do *--p = static_cast<char>('0' + n % 10);
        while ((n /= 10) != 0);
        return *this << p;
    }
    constexpr message& operator<<(std::int64_t n) noexcept {
        if (n < 0) return *this << "-" << (~static_cast<std::uint64_t>(n) + 1);
        return *this << static_cast<std::uint64_t>(n);
    }
    constexpr message& operator<<(int n) noexcept { return *this << std::int64_t{n}; }
    constexpr message& operator<<(unsigned n) noexcept { return *this << std::uint64_t{n}; }

    [[nodiscard]] constexpr char const* c_str() const noexcept { return text_; }

   private:
    char text_[400] = {};
    std::size_t size_ = 0;
};

/// The exception of ferry: code, the function that failed, where it was called from, and a sentence that names the
/// field, its value, the rule and the cure. Copies allocate nothing and do not throw.
class FERRY_VISIBLE error : public std::exception {
   public:
    error(errc code, char const* api, message const& text,
          std::source_location where = std::source_location::current()) noexcept
        : code_{code}, api_{api}, where_{where} {
        text_ << api << ": " << text.c_str();
    }

    [[nodiscard]] errc code() const noexcept { return code_; }
    /// The public function that reports: "ferry::from_dlpack".
    [[nodiscard]] char const* api() const noexcept { return api_; }
    [[nodiscard]] std::source_location const& where() const noexcept { return where_; }
    [[nodiscard]] char const* what() const noexcept override { return text_.c_str(); }

   private:
    errc code_;
    char const* api_;
    std::source_location where_;
    message text_;
};

/// Where a function was called from, as a parameter that `{}` never means: for overloads beside one that takes a
/// request.
struct call_site {
    std::source_location location;
    constexpr call_site(std::source_location where) noexcept : location{where} {}
};

namespace detail {

[[noreturn]] FERRY_COLD inline void fail(errc code, char const* api, message const& text,
                                         std::source_location where = std::source_location::current()) {
    throw error{code, api, text, where};
}

}  // namespace detail
}  // namespace ferry::inline v0
