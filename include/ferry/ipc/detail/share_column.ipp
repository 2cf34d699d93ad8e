// ferry: the engine of ipc/share_column.hpp.
#pragma once

#include <ferry/ipc/share_column.hpp>

#include <ferry/column/detail/path.hpp>
#include <ferry/column/detail/staged_bytes.hpp>
#include <ferry/column/detail/used_bytes.hpp>
#include <ferry/column/layout.hpp>
#include <ferry/ipc/detail/column_nodes.hpp>
#include <ferry/ipc/detail/new_share.hpp>

namespace FERRY_NAMESPACE::ipc {
namespace detail {

/// One share of a column.
class column_sharing {
   public:
    column_sharing(column const& c, share_options const& how, handle_ref b, std::source_location where)
        : column_{c},
          how_{how},
          b_{b},
          where_{where},
          share_{how, true, b, where},
          is_missing_{how.copy == copy_policy::always} {}

    /// When some bytes must be copied, the tree is described again, cut to the items of the view as far as that can be
    /// done without reading the buffers.
    [[nodiscard]] std::shared_ptr<share_state> run() {
        static_cast<void>(ferry::detail::check_stream_of(column_.view(), how_.ready_on, cpu, {share_api, where_}));
        wire::node root;
        ferry::detail::column_path const path{column_.name()};
        if (!is_missing_) describe(column_.view(), path, root);
        if (is_missing_) {
            is_cut_ = true;
            root = {};
            describe(column_.view(), path, root);
            copy_missing();
        }
        if (share_.is_empty()) share_.add_none(to(column_.device()));
        return share_.finish(std::move(root), column_.owner());
    }

   private:
    struct missing_range : ferry::detail::copied_range {
        ferry::device place;
        wire::slice* slice;
    };

    /// Where memory of a device is copied to.
    [[nodiscard]] static ferry::device to(ferry::device from) noexcept { return is_host_accessible(from) ? cpu : from; }
    /// Whether the tree is described in vain.
    [[nodiscard]] bool is_over() const noexcept { return is_missing_ && !is_cut_; }
    /// The stream of copies on a device. A handle is a stream of one device: for a column on several, the host waits.
    [[nodiscard]] stream_token copies_on(ferry::device place) {
        auto const on = how_.ready_on;
        if (!column_.view().is_mixed() || on.is_default() || !on.names_stream()) return on.on_device(place);
        if (!std::exchange(has_waited_, true)) wait(on);
        return {};
    }

    void wait(stream_token on) { static_cast<void>(ferry::detail::wait_for(b_, on, {share_api, where_})); }

    void describe(column_view c, ferry::detail::column_path const& path, wire::node& out) {
        out.format = c.format();
        out.name = c.name();
        auto const* const metadata = reinterpret_cast<std::byte const*>(c.metadata().data());
        out.metadata.assign(metadata, metadata + c.metadata().size());
        auto const unused = is_cut_ || c.length() == 0 ? ferry::detail::unused_items(c) : 0;
        out.length = c.length();
        out.null_count = c.known_null_count();
        out.offset = c.offset() - unused;
        out.flags = c.flags();
        out.buffers.resize(c.buffers().size());
        for (std::size_t i = 0; i < out.buffers.size(); ++i) describe_buffer(c, i, unused, path, out.buffers[i]);
        out.children.resize(static_cast<std::size_t>(c.child_count()));
        for (int i = 0; i < c.child_count() && !is_over(); ++i) {
            auto const child = is_cut_ ? ferry::detail::used_child(c, i) : ferry::detail::child_of(c, i);
            ferry::detail::column_path const its{path, c.type().id, i, child.name()};
            describe(child, its, out.children[static_cast<std::size_t>(i)]);
        }
        if (c.has_dictionary()) describe(c.dictionary(), path.dictionary(), out.dictionary.emplace_back());
    }
    void describe_buffer(column_view c, std::size_t i, std::int64_t unused, ferry::detail::column_path const& path,
                         wire::slice& out) {
        auto const layout = c.layout();
        auto const& b = c.buffers()[i];
        auto const place = c.device();
        if (b.data == nullptr || is_over()) return;
        bool const is_variadic = i >= static_cast<std::size_t>(layout.buffer_count);
        // Their slices tell the lengths of data buffers.
        if (is_variadic && i + 1 == c.buffers().size() && place.type == device_type::cpu) return;
        auto const kind = is_variadic ? buffer_kind::bytes : layout.buffers[i].kind;
        auto used = ferry::detail::used_bytes(c, i, unused);
        if (!is_cut_ && b.bytes >= 0) used = {static_cast<std::byte const*>(b.data), b.bytes};
        auto const read_end = [&] {
            auto const on = place.type == device_type::cpu ? stream_token{} : copies_on(place);
            static_cast<void>(ferry::detail::read_end(c, i, path, b_, on, used.bytes, {share_api, where_}));
        };
        // A device's offsets are read only when they must be; otherwise the data may go to the end of its allocation.
        bool const is_offset_data = kind == buffer_kind::bytes && !is_variadic && c.length() != 0;
        if (is_host_accessible(place) && (used.bytes < 0 || (is_cut_ && is_offset_data))) read_end();
        if (used.bytes == 0) return;
        auto const name = [&] { return message{} << path << ": " << ferry::name(kind) << " buffer"; };
        if (share_.locate(used.begin, used.bytes, place, name, out)) return;
        is_missing_ = true;
        if (!is_cut_) return;
        if (used.bytes < 0) read_end();
        if (used.bytes == 0) return;
        missing_.push_back({{used.begin, used.bytes, 0}, place, &out});
        share_.copied.buffers.emplace_back((inplace_text{} << path << ": " << ferry::name(kind)).c_str());
    }

    /// Copies each byte once, into one allocation for each device. Finished on return.
    void copy_missing() {
        for (auto begin = missing_.begin(); begin != missing_.end();) {
            auto const place = to(begin->place);
            auto const end = std::partition(begin, missing_.end(),
                                            [&](missing_range const& m) { return is_same_device(to(m.place), place); });
            copy({begin, end}, place);
            begin = end;
        }
    }
    void copy(std::span<missing_range> missing, ferry::device place) {
        std::vector<ferry::detail::copied_range> runs;
        bool const is_on_host = place.type == device_type::cpu;
        // Of a device, the padding between buffers is copied with them. Items that are not used stay out.
        bool const is_joined = !is_on_host && column_.view().is_whole();
        auto const arena = is_joined ? column_.view().node().arena : std::span<std::byte const>{};
        auto const total = static_cast<std::size_t>(ferry::detail::lay_out(missing, runs, arena, 64));
        for (std::byte const* end = nullptr; auto const& m : missing) {  // in address order; without gaps
            auto const* const its_end = m.begin + m.bytes;
            if (!std::less<>{}(end, its_end)) continue;
            share_.copied.bytes += static_cast<std::uint64_t>(its_end - (std::max)(m.begin, end, std::less<>{}));
            end = its_end;
        }
        auto const on = is_on_host ? stream_token{} : copies_on(place);
        if (is_on_host &&
            std::any_of(missing.begin(), missing.end(), [](auto& m) { return m.place.type != device_type::cpu; })) {
            static_cast<void>(ferry::detail::wait_for_devices(column_.view(), b_, how_.ready_on, {share_api, where_}));
        }
        auto const made = share_.add_copy(total, place, on, [&](std::byte* to) {
            if (is_on_host) {
                for (auto const& r : runs) std::memcpy(to + r.at, r.begin, static_cast<std::size_t>(r.bytes));
                return;
            }
            ferry::detail::stream_memory_guard behind{b_, on, place};
            bool is_complete = true;
            for (auto const& r : runs)
                is_complete &= ferry::detail::queue_copy(b_, ferry::detail::plan_bytes(r.bytes), to + r.at, place,
                                                         r.begin, place, on);
            if (!is_complete) wait(on);
            behind.done();
        });
        for (auto const& m : missing)
            *m.slice = {made.memory, made.offset + static_cast<std::uint64_t>(m.at),
                        static_cast<std::uint64_t>(m.bytes)};
    }

    column const& column_;
    share_options const& how_;
    handle_ref b_;
    std::source_location where_;
    new_share share_;
    std::vector<missing_range> missing_{};
    bool is_missing_, is_cut_ = false, has_waited_ = false;
};

FERRY_INLINE shared share_column(column const& c, share_options const& options, handle_ref b,
                                 std::source_location where) {
    return share_access::wrap(column_sharing{c, options, b, where}.run());
}

}  // namespace detail

FERRY_INLINE ferry::column shared::column(std::source_location where) const {
    constexpr auto api = "ferry::ipc::shared::column";
    if (!holds_column()) detail::fail(errc::argument, api, where, "a tensor is shared here, or nothing: call tensor()");
    std::vector<detail::memory_range> ranges(state_->description.memories.size());
    for_each_part([&](auto const& part) {
        for (auto const& [m, begin, number] : part.memories)
            ranges[number] = {begin, static_cast<std::size_t>(m.length), part.device};
    });
    return detail::column_of(std::get<wire::node>(state_->description.root), ranges, state_, api, where);
}

}  // namespace FERRY_NAMESPACE::ipc
