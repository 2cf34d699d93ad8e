// ferry: a stream of Arrow whose schema has been read.
#pragma once

#include <ferry/arrow/detail/owned.hpp>
#include <ferry/arrow/from_schema.hpp>
#include <ferry/base/error.hpp>
#include <ferry/column/column.hpp>
#include <ferry/config.hpp>

#include <source_location>
#include <utility>

namespace FERRY_NAMESPACE::detail {

inline constexpr char const* stream_api = "ferry::from_arrow";

/// Throws an arrow_stream_error; `stream_text` may be null.
[[noreturn]] FERRY_INLINE void fail_stream(int result, char const* stream_text, std::source_location where);
[[noreturn]] FERRY_INLINE void fail_opening(char const* what, std::source_location where);

/// An ArrowArrayStream or ArrowDeviceArrayStream with its schema. Move-only; released with the last chunk.
template <class Stream>
class opened_stream {
   public:
    /// \param stream  moved from on success, not released on failure
    opened_stream(Stream* stream, std::source_location where) {
        if (stream == nullptr) fail_opening("the stream is null: pass a stream", where);
        if (stream->release == nullptr) fail_opening("the stream was released or moved from: get another one", where);
        if (stream->get_schema == nullptr || stream->get_next == nullptr || stream->get_last_error == nullptr)
            fail_opening(
                "a callback of the stream is null, expected get_schema, get_next and get_last_error: correct it in the "
                "producer",
                where);
        if (int const result = stream->get_schema(stream, &schema_.raw); result != 0)
            fail_stream(result, stream->get_last_error(stream), where);
        type_ = from_arrow_schema(&schema_.raw, where);
        stream_.raw = std::exchange(*stream, Stream{});
    }
    [[nodiscard]] Stream const& stream() const noexcept { return stream_.raw; }
    [[nodiscard]] ArrowSchema const& schema() const noexcept { return schema_.raw; }
    [[nodiscard]] column const& type() const noexcept { return type_; }

    /// \return  false at the end of the stream
    template <class Chunk>
    [[nodiscard]] bool next(owned<Chunk>& out, std::source_location where) {
        auto& from = stream_.raw;
        if (from.release == nullptr) return false;
        out = {};
        if (int const result = from.get_next(&from, &out.raw); result != 0)
            fail_stream(result, from.get_last_error(&from), where);
        if (releasable(out.raw).release != nullptr) return true;
        stream_ = {};
        return false;
    }

   private:
    owned<Stream> stream_;
    owned<ArrowSchema> schema_;
    column type_;
};

}  // namespace FERRY_NAMESPACE::detail
