// ferry: the engine of arrow/from_stream.hpp.
#pragma once

#include <ferry/arrow/from_stream.hpp>

#include <ferry/arrow/from_arrow.hpp>
#include <ferry/base/device.hpp>

#include <cerrno>
#include <cstddef>
#include <string>  // the text of a stream
#include <utility>

namespace FERRY_NAMESPACE {
namespace detail {

[[nodiscard]] inline std::string trimmed(std::string_view text) {
    constexpr std::size_t max_size = 16 * 1024;
    text = text.substr(0, text.find_last_not_of("\r\n") + 1);
    if (text.empty()) return {};
    std::string out{": "};
    if (text.size() <= max_size) return out += text;
    return ((out += text.substr(0, max_size / 2)) += " ... ") += text.substr(text.size() - max_size / 2);
}

FERRY_INLINE void fail_stream(int result, char const* stream_text, std::source_location where) {
    message text{"the stream failed with "};
    text << result;
    text << (result == EINVAL   ? " (EINVAL)"
             : result == ENOMEM ? " (ENOMEM)"
             : result == EIO    ? " (EIO)"
             : result == ENOSYS ? " (ENOSYS)"
                                : "");
    text << ": check the producer of the stream";
    throw arrow_stream_error{result == EINVAL   ? errc::argument
                             : result == ENOMEM ? errc::out_of_memory
                                                : errc::driver,
                             stream_api, text, stream_text != nullptr ? stream_text : "", where};
}
FERRY_INLINE void fail_opening(char const* what, std::source_location where) {
    fail(errc::argument, stream_api, message{what}, where);
}

}  // namespace detail

FERRY_INLINE arrow_stream_error::arrow_stream_error(errc code, char const* api, message const& text,
                                                    std::string_view stream_text, std::source_location where)
    : error{code, api, text, where}, text_{error::what() + detail::trimmed(stream_text)} {}

FERRY_INLINE arrow_reader::arrow_reader(ArrowArrayStream* stream, std::source_location where)
    : stream_{stream, where} {}

FERRY_INLINE std::optional<column> arrow_reader::next(std::source_location where) {
    detail::owned<ArrowArray> chunk;
    if (!stream_.next(chunk, where)) return std::nullopt;
    auto tree = detail::read_arrow(&chunk.raw, &stream_.schema(), cpu, detail::stream_api, where);
    return detail::take_arrow(std::move(tree), &chunk.raw);
}

}  // namespace FERRY_NAMESPACE
