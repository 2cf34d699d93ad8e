// ferry: the engine of arrow/from_stream.hpp.
#pragma once

#include <ferry/arrow/from_stream.hpp>

#include <ferry/arrow/from_arrow.hpp>
#include <ferry/arrow/from_schema.hpp>
#include <ferry/base/device.hpp>

#include <cerrno>
#include <cstddef>
#include <string>  // the text of a stream
#include <utility>

namespace FERRY_NAMESPACE {
namespace detail {

inline constexpr char const* stream_api = "ferry::from_arrow_stream";

[[nodiscard]] inline std::string trimmed(std::string_view text) {
    constexpr std::size_t max_size = 16 * 1024;
    text = text.substr(0, text.find_last_not_of("\r\n") + 1);
    if (text.empty()) return {};
    std::string out{": "};
    if (text.size() <= max_size) return out += text;
    return ((out += text.substr(0, max_size / 2)) += " ... ") += text.substr(text.size() - max_size / 2);
}

[[noreturn]] FERRY_COLD inline void fail_stream(ArrowArrayStream& stream, int result, std::source_location where) {
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
                             stream_api, text, stream_text != nullptr ? stream_text : "", where};
}

inline void check_stream_result(ArrowArrayStream& stream, int result, std::source_location where) {
    if (result != 0) fail_stream(stream, result, where);
}

}  // namespace detail

FERRY_INLINE arrow_stream_error::arrow_stream_error(errc code, char const* api, message const& text,
                                                    std::string_view stream_text, std::source_location where)
    : error{code, api, text, where}, text_{error::what() + detail::trimmed(stream_text)} {}

FERRY_INLINE arrow_reader::arrow_reader(ArrowArrayStream* stream, std::source_location where) {
    if (stream == nullptr || stream->release == nullptr)
        detail::fail(errc::argument, detail::stream_api,
                     message{stream == nullptr ? "the ArrowArrayStream is null: pass a stream"
                                               : "the ArrowArrayStream was released or moved from: get another one"},
                     where);
    if (stream->get_schema == nullptr || stream->get_next == nullptr || stream->get_last_error == nullptr)
        detail::fail(
            errc::argument, detail::stream_api,
            message{"a callback of the ArrowArrayStream is null, expected get_schema, get_next and get_last_error: "
                    "correct it in the "
                    "producer"},
            where);
    detail::check_stream_result(*stream, stream->get_schema(stream, &schema_.raw), where);
    type_ = from_arrow_schema(&schema_.raw, where);
    stream_.raw = std::exchange(*stream, ArrowArrayStream{});
}

FERRY_INLINE std::optional<column> arrow_reader::next(std::source_location where) {
    if (stream_.raw.release == nullptr) return std::nullopt;
    detail::owned<ArrowArray> chunk;
    detail::check_stream_result(stream_.raw, stream_.raw.get_next(&stream_.raw, &chunk.raw), where);
    if (chunk.raw.release == nullptr) {
        stream_ = {};
        return std::nullopt;
    }
    auto tree = detail::read_arrow(&chunk.raw, &schema_.raw, cpu, detail::stream_api, where);
    return detail::take_arrow(std::move(tree), &chunk.raw);
}

FERRY_INLINE std::vector<column> read_all(arrow_reader& reader, std::source_location where) {
    std::vector<column> chunks;
    while (auto chunk = reader.next(where)) chunks.push_back(*std::move(chunk));
    return chunks;
}

}  // namespace FERRY_NAMESPACE
