// ferry: imports of columns by Arrow's C stream interface.
#pragma once

#include <ferry/abi/arrow.hpp>
#include <ferry/arrow/detail/owned.hpp>
#include <ferry/arrow/from_arrow.hpp>
#include <ferry/arrow/from_schema.hpp>
#include <ferry/base/device.hpp>
#include <ferry/base/error.hpp>
#include <ferry/column/column.hpp>
#include <ferry/config.hpp>

#include <cerrno>
#include <cstddef>
#include <optional>
#include <source_location>
#include <stdexcept>  // a string whose copies do not throw
#include <string>     // the text of a stream
#include <string_view>
#include <utility>
#include <vector>  // the chunks

namespace ferry::inline FERRY_ABI_NAMESPACE {

/// The error of a stream, with the whole text of the stream, such as the traceback of a Python producer. The middle of
/// a text of more than 16 KiB is omitted. Copies do not throw.
class FERRY_VISIBLE arrow_stream_error : public error {
   public:
    /// \param code         error code
    /// \param api          public function that reports the error; static storage
    /// \param text         error code of the stream, as text
    /// \param stream_text  text of get_last_error; trailing line ends are removed
    /// \param where        source location of the caller
    /// \throws std::bad_alloc  when an allocation fails
    arrow_stream_error(errc code, char const* api, message const& text, std::string_view stream_text,
                       std::source_location where)
        : error{code, api, text, where}, text_{error::what() + trimmed(stream_text)} {}

    [[nodiscard]] char const* what() const noexcept override { return text_.what(); }

   private:
    [[nodiscard]] static std::string trimmed(std::string_view text) {
        constexpr std::size_t max_size = 16 * 1024;
        text = text.substr(0, text.find_last_not_of("\r\n") + 1);
        if (text.empty()) return {};
        std::string out{": "};
        if (text.size() <= max_size) return out += text;
        return ((out += text.substr(0, max_size / 2)) += " ... ") += text.substr(text.size() - max_size / 2);
    }

    std::runtime_error text_;
};

/// Reads the chunks of an ArrowArrayStream. Owns the stream and its schema. Move-only. Not thread-safe.
class arrow_reader {
   public:
    /// Reads the schema of the stream.
    ///
    /// \param stream  stream; moved from on success, not released on failure
    /// \param where   source location of the caller
    /// \throws arrow_stream_error  an error of the stream, as `next`
    /// \throws error               errc::bad_column: an invalid schema;  argument: a null or released stream, or a null
    ///                             callback
    /// \throws std::bad_alloc      when an allocation fails
    explicit arrow_reader(ArrowArrayStream* stream, std::source_location where = std::source_location::current()) {
        if (stream == nullptr || stream->release == nullptr)
            detail::fail(
                errc::argument, api,
                message{stream == nullptr ? "the ArrowArrayStream is null: pass a stream"
                                          : "the ArrowArrayStream was released or moved from: get another one"},
                where);
        if (stream->get_schema == nullptr || stream->get_next == nullptr || stream->get_last_error == nullptr)
            detail::fail(
                errc::argument, api,
                message{"a callback of the ArrowArrayStream is null, expected get_schema, get_next and get_last_error: "
                        "correct it in the "
                        "producer"},
                where);
        check(*stream, stream->get_schema(stream, &schema_.raw), where);
        type_ = from_arrow_schema(&schema_.raw, where);
        stream_.raw = std::exchange(*stream, ArrowArrayStream{});
    }
    arrow_reader(arrow_reader&&) noexcept = default;
    arrow_reader& operator=(arrow_reader&&) noexcept = default;

    /// \return  an empty column of the type of the chunks
    [[nodiscard]] column const& type() const noexcept { return type_; }
    /// Reads the next chunk. Blocks until the producer returns it.
    ///
    /// \param where  source location of the caller
    /// \return       the chunk; nothing at the end of the stream
    /// \throws arrow_stream_error  an error of the stream: errc::argument for EINVAL, out_of_memory for ENOMEM, driver
    ///                             for other codes
    /// \throws error               errc::bad_column: an invalid chunk, which has been released
    /// \throws std::bad_alloc      when an allocation fails
    [[nodiscard]] std::optional<column> next(std::source_location where = std::source_location::current()) {
        if (stream_.raw.release == nullptr) return std::nullopt;
        detail::owned<ArrowArray> chunk;
        check(stream_.raw, stream_.raw.get_next(&stream_.raw, &chunk.raw), where);
        if (chunk.raw.release == nullptr) {
            stream_ = {};
            return std::nullopt;
        }
        auto tree = detail::read_arrow(&chunk.raw, &schema_.raw, cpu, api, where);
        return detail::take_arrow(std::move(tree), &chunk.raw);
    }

   private:
    static constexpr auto api = "ferry::from_arrow_stream";

    static void check(ArrowArrayStream& stream, int result, std::source_location where) {
        if (result != 0) fail(stream, result, where);
    }
    [[noreturn]] FERRY_COLD static void fail(ArrowArrayStream& stream, int result, std::source_location where) {
        message text{"the stream failed with "};
        text << result;
        text << (result == EINVAL   ? " (EINVAL)"
                 : result == ENOMEM ? " (ENOMEM)"
                 : result == EIO    ? " (EIO)"
                 : result == ENOSYS ? " (ENOSYS)"
                                    : "");
        text << ": check the producer of the stream";
        char const* const stream_text = stream.get_last_error(&stream);
        throw arrow_stream_error{result == EINVAL   ? errc::argument
                                 : result == ENOMEM ? errc::out_of_memory
                                                    : errc::driver,
                                 api, text, stream_text != nullptr ? stream_text : "", where};
    }

    detail::owned<ArrowArrayStream> stream_;
    detail::owned<ArrowSchema> schema_;
    column type_;
};

/// Returns a reader of a stream of columns in host memory.
///
/// \param stream  stream; moved from on success, not released on failure
/// \param where   source location of the caller
/// \throws error, std::bad_alloc  as the constructor of arrow_reader
[[nodiscard]] inline arrow_reader from_arrow_stream(ArrowArrayStream* stream,
                                                    std::source_location where = std::source_location::current()) {
    return arrow_reader{stream, where};
}

/// Reads all remaining chunks.
///
/// \param reader  reader; at the end on success
/// \param where   source location of the caller
/// \throws error, std::bad_alloc  as arrow_reader::next; the chunks that were read are released
[[nodiscard]] inline std::vector<column> read_all(arrow_reader& reader,
                                                  std::source_location where = std::source_location::current()) {
    std::vector<column> chunks;
    while (auto chunk = reader.next(where)) chunks.push_back(*std::move(chunk));
    return chunks;
}

}  // namespace ferry::inline FERRY_ABI_NAMESPACE
