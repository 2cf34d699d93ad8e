// ferry: the engine of arrow/to_stream.hpp.
#pragma once

#include <ferry/arrow/to_stream.hpp>

#include <ferry/arrow/detail/owned.hpp>
#include <ferry/arrow/from_schema.hpp>
#include <ferry/arrow/to_arrow.hpp>
#include <ferry/base/device.hpp>
#include <ferry/base/error.hpp>
#include <ferry/column/detail/structure.hpp>

#include <cerrno>
#include <cstddef>
#include <exception>
#include <memory>  // ownership of the state
#include <new>
#include <utility>

namespace FERRY_NAMESPACE {
namespace detail {

/// Merges the flags of a chunk into a schema and its children, as `concat` does.
inline void merge_flags(ArrowSchema& into, column_view c) {
    into.flags = merged_flags(into.flags, c.flags());
    for (int i = 0; i < c.child_count(); ++i) merge_flags(*into.children[i], c.child(i));
    if (c.has_dictionary()) merge_flags(*into.dictionary, c.dictionary());
}

/// Returns an empty column of the type, with the merged flags of all chunks.
[[nodiscard]] inline column without_items(column_view type, std::vector<column> const& chunks) {
    owned<ArrowSchema> schema;
    to_arrow_schema(type, &schema.raw);
    for (auto const& c : chunks) merge_flags(schema.raw, c);
    return from_arrow_schema(&schema.raw);
}

/// The private data of an exported stream: the chunks that the consumer has not read.
class stream_state {
   public:
    stream_state(std::vector<column> chunks, column type) noexcept
        : chunks_{std::move(chunks)}, type_{std::move(type)} {}

    void move_into(ArrowArrayStream& out) noexcept {
        out.get_schema = [](ArrowArrayStream* s, ArrowSchema* schema) {
            return of(*s).run([&](stream_state& me) { to_arrow_schema(me.type_, schema); });
        };
        out.get_next = [](ArrowArrayStream* s, ArrowArray* array) {
            return of(*s).run([&](stream_state& me) { me.next(array); });
        };
        out.get_last_error = [](ArrowArrayStream* s) { return of(*s).last_error(); };
        out.release = [](ArrowArrayStream* s) {
            delete &of(*s);
            s->release = nullptr;
        };
        out.private_data = this;
    }

   private:
    [[nodiscard]] static stream_state& of(ArrowArrayStream& s) noexcept {
        return *static_cast<stream_state*>(s.private_data);
    }

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
    void next(ArrowArray* out) {
        *out = ArrowArray{};  // a released array ends the stream
        if (next_ == chunks_.size()) return;
        to_arrow(chunks_[next_], out);
        chunks_[next_++] = column{};  // owned by the consumer
    }
    [[nodiscard]] char const* last_error() const noexcept { return failed_ ? error_.c_str() : nullptr; }

    std::vector<column> chunks_;
    column type_;
    std::size_t next_ = 0;
    bool failed_ = false;
    inplace_text error_{};
};

}  // namespace detail

FERRY_INLINE void to_arrow_stream(std::vector<column> chunks, column const& type, ArrowArrayStream* out,
                                  std::source_location where) {
    constexpr auto api = "ferry::to_arrow_stream";
    if (out == nullptr)
        detail::fail(errc::argument, api, message{"the ArrowArrayStream to write to is null: pass a struct"}, where);
    for (std::size_t i = 0; i < chunks.size(); ++i) {
        static_cast<void>(detail::check_same_type(type, chunks[i], detail::column_path{type.name()}, i, {api, where}));
        chunks[i].view().require_host(api, where);
    }
    auto all = detail::without_items(type, chunks);
    auto state = std::make_unique<detail::stream_state>(std::move(chunks), std::move(all));
    ArrowArrayStream made{};
    state.release()->move_into(made);
    *out = made;
}

FERRY_INLINE void to_arrow_stream(std::vector<column> chunks, ArrowArrayStream* out, std::source_location where) {
    if (chunks.empty())
        detail::fail(errc::argument, "ferry::to_arrow_stream",
                     message{"there are no chunks: pass a column of their type as well"}, where);
    auto const type = chunks.front();
    to_arrow_stream(std::move(chunks), type, out, where);
}

}  // namespace FERRY_NAMESPACE
