// ferry: the chunks of an exported stream, and the type that all of them have.
#pragma once

#include <ferry/abi/arrow.hpp>
#include <ferry/arrow/detail/owned.hpp>
#include <ferry/arrow/from_schema.hpp>
#include <ferry/arrow/to_arrow.hpp>
#include <ferry/base/error.hpp>
#include <ferry/column/column.hpp>
#include <ferry/column/detail/path.hpp>
#include <ferry/column/detail/structure.hpp>

#include <cerrno>
#include <cstddef>
#include <exception>
#include <new>
#include <source_location>
#include <utility>
#include <vector>  // the chunks

namespace FERRY_NAMESPACE::detail {

/// Merges the flags of a chunk into a schema and its children, as `concat` does.
inline void merge_flags(ArrowSchema& into, column_view c) {
    into.flags = merged_flags(into.flags, c.flags());
    for (int i = 0; i < c.child_count(); ++i) merge_flags(*into.children[i], c.child(i));
    if (c.has_dictionary()) merge_flags(*into.dictionary, c.dictionary());
}

/// Returns an empty column of the type of the chunks, with their merged flags.
/// \throws error  errc::argument: a chunk of another type
[[nodiscard]] inline column type_of_chunks(std::vector<column> const& chunks, column_view type, char const* api,
                                           std::source_location where) {
    owned<ArrowSchema> schema;
    to_arrow_schema(type, &schema.raw);
    for (std::size_t i = 0; i < chunks.size(); ++i) {
        static_cast<void>(check_same_type(type, chunks[i], column_path{type.name()}, i, {api, where}));
        merge_flags(schema.raw, chunks[i]);
    }
    return from_arrow_schema(&schema.raw);
}

/// Moves a chunk into the struct of a consumer. On failure the chunk stays, and the struct is released.
inline void hand_over(column& chunk, ArrowArray* out) {
    to_arrow(chunk, out);
    chunk = column{};
}
inline void hand_over(owned<ArrowDeviceArray>& chunk, ArrowDeviceArray* out) noexcept {
    *out = std::exchange(chunk.raw, ArrowDeviceArray{});
}

/// The private data of an exported stream: the chunks that the consumer has not read, as `Chunk`; it gets an `Array`.
template <class Stream, class Array, class Chunk>
class stream_state {
   public:
    stream_state(std::vector<Chunk> chunks, column type) noexcept
        : chunks_{std::move(chunks)}, type_{std::move(type)} {}

    void move_into(Stream& out) noexcept {
        out.get_schema = [](Stream* s, ArrowSchema* schema) {
            return of(*s).run([&](stream_state& me) { to_arrow_schema(me.type_, schema); });
        };
        out.get_next = [](Stream* s, Array* array) { return of(*s).run([&](stream_state& me) { me.next(array); }); };
        out.get_last_error = [](Stream* s) { return of(*s).last_error(); };
        out.release = [](Stream* s) {
            delete &of(*s);
            s->release = nullptr;
        };
        out.private_data = this;
    }

   private:
    [[nodiscard]] static stream_state& of(Stream& s) noexcept { return *static_cast<stream_state*>(s.private_data); }

    /// Runs a callback. Exceptions become error codes; the text is kept until the next call.
    template <class F>
    int run(F f) noexcept {
        failed_ = true;
        try {
            f(*this);
        } catch (std::bad_alloc const&) {
            error_ = inplace_text{"out of memory"};
            return ENOMEM;
        } catch (std::exception const& e) {
            error_ = inplace_text{e.what()};
            return EINVAL;
        }
        failed_ = false;
        return 0;
    }
    void next(Array* out) {
        *out = Array{};  // a released array ends the stream
        if (next_ == chunks_.size()) return;
        hand_over(chunks_[next_], out);
        ++next_;
    }
    [[nodiscard]] char const* last_error() const noexcept { return failed_ ? error_.c_str() : nullptr; }

    std::vector<Chunk> chunks_;
    column type_;
    std::size_t next_ = 0;
    bool failed_ = false;
    inplace_text error_{};
};

}  // namespace FERRY_NAMESPACE::detail
