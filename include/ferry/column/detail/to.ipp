// ferry: the engine of column/to.hpp. Requires exceptions.
#pragma once

#include <ferry/column/to.hpp>

#include <ferry/base/detail/catching.hpp>
#include <ferry/base/error.hpp>
#include <ferry/column/detail/used_bytes.hpp>
#include <ferry/column/make_struct.hpp>
#include <ferry/space/detail/operations.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>  // shared ownership of the arena
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>  // as many as buffers

namespace FERRY_NAMESPACE::detail {

/// The source of a buffer of the copy.
struct buffer_range : copied_range {
    column_buffer* buffer;
};

/// One copy of a column, into memory that the back end `memory` allocates; see move_column. With `is_exact` and a
/// column on the target device, buffers that the space contains are shared.
class column_copy {
   public:
    column_copy(back_end_ref b, back_end_ref memory, device from, device to, bool is_exact, stream_token on,
                std::source_location where)
        : b_{b},
          memory_{memory},
          from_{from},
          to_{to},
          may_share_{is_exact && is_same_device(from, to)},
          on_{on.on_device(is_host_accessible(to) ? from : to)},
          allocates_on_{on.on_device(to)},
          where_{where} {}

    [[nodiscard]] column run(column const& c) {
        std::size_t nodes = 0, buffers = 0;
        static_cast<void>(for_each_node(c.view(), column_path{c.name()}, [&](column_view n, column_path const&) {
            buffers += n.buffers().size();
            return ++nodes != 0;
        }));
        nodes_.resize(nodes);
        buffers_.resize(buffers);
        auto parts = describe(c.view(), column_path{c.name()});
        if (may_share_ && ranges_.empty() && !leaves_out_) return c;
        auto const total = lay_out(ranges_, runs_, c.view().node().arena);
        if (total == 0) return build_column(parts, is_shared_ ? c.owner() : nullptr, to_, {api, where_});
        bool const reads_later = from_.type != device_type::cpu && !is_host_accessible(to_) && on_.names_stream();
        auto got = memory_.allocate(to_, static_cast<std::size_t>(total), allocates_on_);
        static_cast<void>(check_memory(got, {api, where_}));
        auto& memory = unwrapped(got);
        std::shared_ptr<copy_with_source<any_owner, column, any_owner>> owner;
        stream_memory_guard behind{b_, on_, to_};
        owner = std::make_shared<typename decltype(owner)::element_type>(std::move(memory));
        if (reads_later || is_shared_) owner->source = c;
        auto* const begin = static_cast<std::byte*>(static_cast<void*>(owner->memory.data()));
        for (auto const& r : ranges_) *r.buffer = {begin + r.at, r.bytes};
        std::span<std::byte const> const arena{begin, static_cast<std::size_t>(total)};
        auto made = build_column(parts, owner, to_, {api, where_}, is_shared_ ? std::span<std::byte const>{} : arena);
        copy(begin, total, owner->queued);  // last, so that a failure cannot free memory that a queued copy writes
        behind.done();
        return made;
    }

   private:
    static constexpr char const* api = "ferry::column::to";

    [[nodiscard]] column_parts describe(column_view c, column_path const& path) {
        auto const unused = unused_items(c);
        auto const buffers = next(buffers_, used_buffers_, c.buffers().size());
        for (std::size_t i = 0; i < buffers.size(); ++i) {
            auto used = used_bytes(c, i, unused);
            if (used.bytes < 0) static_cast<void>(read_end(c, i, path, b_, on_, used.bytes, {api, where_}));
            leaves_out_ |= used.bytes == 0 && c.buffers()[i].data != nullptr && c.buffers()[i].bytes != 0;
            if (used.bytes == 0) continue;
            if (is_in_space(used)) buffers[i] = {used.begin, used.bytes}, is_shared_ = true;
            else ranges_.push_back({{used.begin, used.bytes, 0}, &buffers[i]});
        }
        auto const count = static_cast<std::size_t>(c.child_count());
        auto const children = next(nodes_, used_nodes_, count + c.has_dictionary());
        for (int i = 0; i < c.child_count(); ++i) {
            auto const child = used_child(c, i);
            children[static_cast<std::size_t>(i)] = describe(child, column_path{path, c.type().id, i, child.name()});
        }
        if (c.has_dictionary()) children[count] = describe(dictionary_of(c), path.dictionary());
        return {.format = c.format(),
                .name = c.name(),
                .length = c.length(),
                .null_count = c.known_null_count(),
                .offset = c.offset() - unused,
                .buffers = buffers,
                .children = children.first(count),
                .dictionary = c.has_dictionary() ? &children[count] : nullptr,
                .flags = c.flags(),
                .metadata = c.metadata()};
    }

    [[nodiscard]] bool is_in_space(used_range const& used) const {
        std::optional<device> space;
        bool is_inside = false;
        if (may_share_)
            memory_.locate({static_cast<void const*>(used.begin), dtype_of<std::uint8_t>, {&used.bytes, 1}, {}, from_},
                           space, is_inside);
        return is_inside;
    }

    void copy(std::byte* to, std::int64_t total, any_owner& queued) {
        bool const is_down = is_host_accessible(to_);
        // Waits, because queued work may write the pinned or managed source, or use the memory of the destination.
        if (is_host_accessible(from_) && (is_down || runs_.size() > 1)) settle(from_);
        if (is_host_accessible(from_) && is_down) {
            settle(to_);
            for (auto const& r : runs_) std::memcpy(to + r.at, r.begin, static_cast<std::size_t>(r.bytes));
            return;
        }
        bool is_complete = true;
        if (is_host_accessible(from_) && runs_.size() > 1) {
            buffer<host_space> const staging{static_cast<std::size_t>(total)};
            auto* const at = static_cast<std::byte*>(staging.data());
            std::int64_t end = 0;
            for (auto const& r : runs_) {
                std::memset(at + end, 0, static_cast<std::size_t>(r.at - end));
                std::memcpy(at + r.at, r.begin, static_cast<std::size_t>(r.bytes));
                end = r.at + r.bytes;
            }
            std::memset(at + end, 0, static_cast<std::size_t>(total - end));
            // The call returns after it has read the staging memory.
            is_complete = queue_copy(b_, plan_bytes(total), to, to_, at, cpu, on_);
        } else {
            auto const copy_runs = [&] {
                for (auto const& r : runs_)
                    is_complete &= queue_copy(b_, plan_bytes(r.bytes), to + r.at, to_, r.begin, from_, on_);
            };
            on_exception(copy_runs, [&] {
                // Waits before the memory is freed. The guard in `run` does so for device memory.
                if (is_down) wait_after_error(b_, on_);
            });
        }
        if (is_complete) return;
        if (!is_down) queued = mark_queued(b_, on_);
        else wait();
    }
    template <class T>
    [[nodiscard]] static std::span<T> next(std::vector<T>& all, std::size_t& used, std::size_t count) noexcept {
        return std::span{all}.subspan(std::exchange(used, used + count), count);
    }
    void settle(device d) {
        if (d.type != device_type::cpu) wait();
    }
    void wait() { static_cast<void>(wait_for(b_, on_, {api, where_})); }

    back_end_ref b_, memory_;
    device from_, to_;
    bool may_share_, is_shared_ = false, leaves_out_ = false;  // leaves_out_: the copy omits an unused buffer
    stream_token on_, allocates_on_;
    std::source_location where_;
    std::vector<column_buffer> buffers_{};  // the buffers of all nodes
    std::vector<column_parts> nodes_{};
    std::size_t used_buffers_ = 0, used_nodes_ = 0;
    std::vector<buffer_range> ranges_{};
    std::vector<copied_range> runs_{};
};

FERRY_INLINE column move_column(column const& c, device target, back_end_ref b, back_end_ref memory, bool is_exact,
                                stream_token on, std::source_location where) {
    reporter const r{"ferry::column::to", where};
    static_cast<void>(check_stream_of(c.view(), on, target, r));
    if (!c.view().is_mixed()) {
        auto const from = c.device();
        if (!is_exact && is_same_device(from, target)) return c;
        static_cast<void>(check_support(b, from, r));
        static_cast<void>(check_support(b, target, r));
        return column_copy{b, memory, from, target, is_exact, on, where}.run(c);
    }
    if (c.type().id != type_id::structure || !c.view().is_without_nulls())
        static_cast<void>(
            check_one_device(c.view(), "of such columns, only structs without nulls can be moved: move each child", r));
    static_cast<void>(wait_for_devices(c.view(), b, on, r));
    std::vector<column> moved;
    for (int i = 0; i < c.child_count(); ++i)
        moved.push_back(move_column(c.field(i, where), target, b, memory, is_exact, {}, where));
    return join({.name = c.name(), .flags = c.view().flags(), .metadata = c.view().metadata()}, moved, r);
}

}  // namespace FERRY_NAMESPACE::detail
