// ferry: columns out of Arrow's C stream interface.
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
#include <stdexcept>  // a text of any length whose copies do not throw
#include <string>     // builds that text
#include <string_view>
#include <utility>
#include <vector>  // the chunks

namespace ferry::inline v0 {

/// What a stream reported, with all of its own text: of Python's producers, where the error came from. Of a text of
/// more than 16 KiB the middle is left out. Copies do not throw.
class FERRY_VISIBLE arrow_stream_error : public error {
   public:
    /// \param said  the stream's text, of one line or several; line ends behind it are dropped
    /// \throws std::bad_alloc
    arrow_stream_error(errc code, char const* api, message const& text, std::string_view said,
                       std::source_location where)
        : error{code, api, text, where}, text_{error::what() + trimmed(said)} {}

    [[nodiscard]] char const* what() const noexcept override { return text_.what(); }

   private:
    [[nodiscard]] static std::string trimmed(std::string_view said) {
        constexpr std::size_t most = 16 * 1024;
        said = said.substr(0, said.find_last_not_of("\r\n") + 1);
        if (said.empty()) return {};
        std::string text{": "};
        if (said.size() <= most) return text += said;
        return ((text += said.substr(0, most / 2)) += " ... ") += said.substr(said.size() - most / 2);
    }

    std::runtime_error text_;
};

/// The chunks of an ArrowArrayStream, one after the other. Owns the stream, and the schema that it gave. Move-only; not
/// for two threads at a time.
class arrow_reader {
   public:
    /// Takes over the stream once it has given a schema that holds; else it is as it was, but asked.
    /// \throws error  what the stream reports, as `next` does;  errc::bad_column;  argument: null, or released;
    ///                std::bad_alloc
    explicit arrow_reader(ArrowArrayStream* stream, std::source_location where = std::source_location::current()) {
        if (stream == nullptr || stream->release == nullptr)
            detail::fail(errc::argument, api,
                         message{stream == nullptr ? "the ArrowArrayStream is null"
                                                   : "the ArrowArrayStream has been released, or moved away"},
                         where);
        if (stream->get_schema == nullptr || stream->get_next == nullptr || stream->get_last_error == nullptr)
            detail::fail(errc::argument, api, message{"a callback of the ArrowArrayStream is null"}, where);
        check(*stream, stream->get_schema(stream, &schema_.raw), where);
        type_ = from_arrow_schema(&schema_.raw, where);
        stream_.raw = std::exchange(*stream, ArrowArrayStream{});
    }
    arrow_reader(arrow_reader&&) noexcept = default;
    arrow_reader& operator=(arrow_reader&&) noexcept = default;

    /// What all chunks are: a column of their type without items.
    [[nodiscard]] column const& type() const noexcept { return type_; }
    /// The next chunk; nothing at the end, and ever after. Waits for the producer as long as it takes.
    ///
    /// \throws arrow_stream_error  what the stream reports: errc::argument for EINVAL, out_of_memory for ENOMEM, driver
    ///                             for all else
    /// \throws error  errc::bad_column: a chunk that does not hold, which has been released;  std::bad_alloc
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
        char const* const said = stream.get_last_error(&stream);
        throw arrow_stream_error{result == EINVAL   ? errc::argument
                                 : result == ENOMEM ? errc::out_of_memory
                                                    : errc::driver,
                                 api, text, said != nullptr ? said : "", where};
    }

    detail::owned<ArrowArrayStream> stream_;
    detail::owned<ArrowSchema> schema_;
    column type_;
};

/// Takes over a stream of host columns; see arrow_reader.
[[nodiscard]] inline arrow_reader from_arrow_stream(ArrowArrayStream* stream,
                                                    std::source_location where = std::source_location::current()) {
    return arrow_reader{stream, where};
}

/// All chunks that are left. \throws error  what `next` throws; then the chunks before have been released
[[nodiscard]] inline std::vector<column> read_all(arrow_reader& reader,
                                                  std::source_location where = std::source_location::current()) {
    std::vector<column> chunks;
    while (auto chunk = reader.next(where)) chunks.push_back(*std::move(chunk));
    return chunks;
}

}  // namespace ferry::inline v0
