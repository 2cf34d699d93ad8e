// ferry: imports of columns by Arrow's C stream interface.
#pragma once

#include <ferry/abi/arrow.hpp>
#include <ferry/arrow/detail/opened_stream.hpp>
#include <ferry/base/error.hpp>
#include <ferry/column/column.hpp>
#include <ferry/config.hpp>

#include <optional>
#include <source_location>
#include <stdexcept>  // a string whose copies do not throw
#include <string_view>

namespace FERRY_NAMESPACE {

/// The error of a stream, with the complete text of the stream, such as the traceback of a Python producer. The middle
/// of a text of more than 16 KiB is omitted. Copies do not throw.
class FERRY_VISIBLE arrow_stream_error : public error {
   public:
    /// \param code         error code
    /// \param api          public function that reports the error; static storage
    /// \param text         error code of the stream, as text
    /// \param stream_text  text of get_last_error; trailing line ends are removed
    /// \throws std::bad_alloc  when an allocation fails
    FERRY_INLINE arrow_stream_error(errc code, char const* api, message const& text, std::string_view stream_text,
                                    std::source_location where);

    [[nodiscard]] char const* what() const noexcept override { return text_.what(); }

   private:
    std::runtime_error text_;
};

/// Reads the chunks of an ArrowArrayStream in host memory, one by one. Owns the stream and its schema. Move-only. Not
/// thread-safe.
class arrow_reader {
   public:
    /// Reads the schema of the stream.
    ///
    /// \param stream  stream; moved from on success, not released on failure
    /// \throws arrow_stream_error  an error of the stream, as `next`
    /// \throws error               errc::bad_column: an invalid schema;  argument: a null or released stream, or a null
    ///                             callback
    /// \throws std::bad_alloc      when an allocation fails
    FERRY_INLINE explicit arrow_reader(ArrowArrayStream* stream,
                                       std::source_location where = std::source_location::current());
    arrow_reader(arrow_reader&&) noexcept = default;
    arrow_reader& operator=(arrow_reader&&) noexcept = default;

    /// \return  an empty column of the type of the chunks
    [[nodiscard]] column const& type() const noexcept { return stream_.type(); }
    /// Reads the next chunk. Blocks until the producer returns it.
    ///
    /// \return       the chunk; nothing at the end of the stream
    /// \throws arrow_stream_error  an error of the stream: errc::argument for EINVAL, out_of_memory for ENOMEM, driver
    ///                             for other codes
    /// \throws error               errc::bad_column: an invalid chunk, which has been released
    /// \throws std::bad_alloc      when an allocation fails
    [[nodiscard]] FERRY_INLINE std::optional<column> next(std::source_location where = std::source_location::current());

   private:
    detail::opened_stream<ArrowArrayStream> stream_;
};

}  // namespace FERRY_NAMESPACE

#if !defined(FERRY_SEPARATE_COMPILATION)
#include <ferry/arrow/detail/from_stream.ipp>
#endif
