// ferry: the engine of ipc/share_column.hpp.
#pragma once

#include <ferry/ipc/share_column.hpp>

#include <ferry/column/detail/path.hpp>
#include <ferry/column/detail/staged_bytes.hpp>
#include <ferry/column/detail/used_bytes.hpp>
#include <ferry/column/layout.hpp>
#include <ferry/ipc/detail/column_nodes.hpp>
#include <ferry/ipc/detail/tensor_part.hpp>

namespace FERRY_NAMESPACE::ipc {
namespace detail {

/// Builds one share of a column, or of columns and tensors. The results of `add` are complete after `finish`.
class sharing {
   public:
    sharing(share_options const& how, handle_ref b, std::source_location where)
        : how_{how}, b_{b}, where_{where}, share_{how, true, b, where} {}

    /// Describes a column. When some bytes must be copied, describes it again, reduced to the items of the view as far
    /// as that is possible without reading the buffers.
    void add(column_view c, wire::node& out) {
        static_cast<void>(ferry::detail::check_stream_of(c, how_.ready_on, cpu, {share_api, where_}));
        columns_.push_back(c);
        share_.begin(true);
        ferry::detail::column_path const path{c.name()};
        is_missing_ = how_.copy == copy_policy::always;
        is_cut_ = false;
        if (!is_missing_) describe(c, path, out);
        if (!is_missing_) return;
        is_cut_ = true;
        out = {};
        describe(c, path, out);
    }
    void add(tensor_view const& v, std::size_t number, wire::tensor& out) {
        static_cast<void>(ferry::detail::check_stream(how_.ready_on, v.device(), {share_api, where_}));
        share_.begin(v.is_read_only());
        tensor_part part{v, out};
        wire::slice at;
        if (part.is_nowhere()) {
            at = share_.add_none(v.device());
        } else if (!part.locate(share_, [&] { return message{"item "} << std::uint64_t{number}; }, at)) {
            missing_tensors_.push_back({std::move(part)});
            if (!v.is_empty()) share_.copied.buffers.emplace_back((inplace_text{} << "item " << number).c_str());
            return;
        }
        part.set_place(at.memory, at.offset);
    }
    /// Whether the items are on several devices; set before the first call of `add`.
    bool is_mixed = false;

    [[nodiscard]] std::shared_ptr<share_state> finish(auto&& root, ferry::device place,
                                                      std::shared_ptr<void const> const& owner) {
        copy_missing();
        if (share_.is_empty()) share_.add_none(copied_to(place));
        return share_.finish(std::move(root), owner);
    }

   private:
    struct missing_range : ferry::detail::copied_range {
        ferry::device place;
        wire::slice* slice;
    };
    struct missing_tensor {
        tensor_part part;
        std::size_t at = 0;

        [[nodiscard]] bool is_read_only() const noexcept { return part.view().is_read_only(); }
    };

    /// Returns whether the column must be described again, because some bytes must be copied.
    [[nodiscard]] bool is_over() const noexcept { return is_missing_ && !is_cut_; }
    /// Returns the stream of copies on a device. If the items are on several devices, the host waits for a stream
    /// handle instead, because it belongs to one device.
    [[nodiscard]] stream_token copies_on(ferry::device place) {
        auto const on = how_.ready_on;
        if (!is_mixed || on.is_default() || !on.names_stream()) return on.on_device(place);
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
        // The lengths of data buffers are not shared, because their slices contain them.
        if (is_variadic && i + 1 == c.buffers().size() && place.type == device_type::cpu) return;
        auto const kind = is_variadic ? buffer_kind::bytes : layout.buffers[i].kind;
        auto used = ferry::detail::used_bytes(c, i, unused);
        if (!is_cut_ && b.bytes >= 0) used = {static_cast<std::byte const*>(b.data), b.bytes};
        auto const read_end = [&] {
            auto const on = place.type == device_type::cpu ? stream_token{} : copies_on(place);
            static_cast<void>(ferry::detail::read_end(c, i, path, b_, on, used.bytes, {share_api, where_}));
        };
        // Offsets in device memory are read only if necessary; otherwise the data may extend to the end of its
        // allocation.
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

    /// Copies each byte of columns once, into one allocation for each device; on the host, writable tensors have
    /// another allocation. The copies are complete on return.
    void copy_missing() {
        std::span<missing_range> ranges{missing_};
        std::span<missing_tensor> tensors{missing_tensors_};
        while (!ranges.empty() || !tensors.empty()) {
            auto const place = ranges.empty() ? tensors[0].part.place() : copied_to(ranges[0].place);
            bool const is_writable = ranges.empty() && !tensors[0].is_read_only();
            bool const is_on_host = place.type == device_type::cpu;
            auto const rest = std::partition(ranges.begin(), ranges.end(), [&](missing_range const& m) {
                return !is_writable && is_same_device(copied_to(m.place), place);
            });
            auto const others = std::partition(tensors.begin(), tensors.end(), [&](missing_tensor const& m) {
                return (!is_on_host || m.is_read_only() != is_writable) && is_same_device(m.part.place(), place);
            });
            share_.begin(std::all_of(tensors.begin(), others, [](auto& m) { return m.is_read_only(); }));
            copy({ranges.begin(), rest}, {tensors.begin(), others}, place);
            ranges = {rest, ranges.end()}, tensors = {others, tensors.end()};
        }
    }
    void copy(std::span<missing_range> missing, std::span<missing_tensor> tensors, ferry::device place) {
        std::vector<ferry::detail::copied_range> runs;
        bool const is_on_host = place.type == device_type::cpu;
        // On a device, the padding between buffers is copied with them, but not the unused items of a slice.
        bool const is_joined = !is_on_host && columns_.size() == 1 && columns_[0].is_whole();
        auto const arena = is_joined ? columns_[0].node().arena : std::span<std::byte const>{};
        auto total = static_cast<std::size_t>(ferry::detail::lay_out(missing, runs, arena, 64));
        for (std::byte const* end = nullptr; auto const& m : missing) {  // in address order; gaps are not copied
            auto const* const its_end = m.begin + m.bytes;
            if (!std::less<>{}(end, its_end)) continue;
            share_.copied.bytes += static_cast<std::uint64_t>(its_end - (std::max)(m.begin, end, std::less<>{}));
            end = its_end;
        }
        auto const on = is_on_host ? stream_token{} : copies_on(place);
        if (is_on_host &&
            std::any_of(missing.begin(), missing.end(), [](auto& m) { return m.place.type != device_type::cpu; })) {
            for (auto const& c : columns_)
                static_cast<void>(ferry::detail::wait_for_devices(c, b_, how_.ready_on, {share_api, where_}));
        }
        for (auto& t : tensors) {
            t.at = (total + 63) / 64 * 64;
            auto const bytes = t.part.lay_out();
            total = t.at + bytes;
            share_.copied.bytes += bytes;
        }
        auto const made = share_.add_copy(total, place, on, [&](std::byte* to) {
            for (auto const& t : tensors) {
                auto const from = t.part.view().device();
                t.part.copy(to + t.at, b_, from.type == device_type::cpu ? stream_token{} : copies_on(from), where_);
            }
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
        for (auto& t : tensors) t.part.set_place(made.memory, made.offset + t.at);
    }

    share_options const& how_;
    handle_ref b_;
    std::source_location where_;
    new_share share_;
    std::vector<column_view> columns_{};
    std::vector<missing_range> missing_{};
    std::vector<missing_tensor> missing_tensors_{};
    bool is_missing_ = false, is_cut_ = false, has_waited_ = false;  // the first two are for the current column
};

FERRY_INLINE shared share_column(column const& c, share_options const& options, handle_ref b,
                                 std::source_location where) {
    sharing made{options, b, where};
    made.is_mixed = c.view().is_mixed();
    wire::node root;
    made.add(c.view(), root);
    return share_access::wrap(made.finish(std::move(root), c.device(), c.owner()));
}

}  // namespace detail

FERRY_INLINE shared share(std::vector<item>&& items, share_options const& options, handle_ref b,
                          std::source_location where) {
    auto const owner = std::make_shared<std::vector<item>>();
    detail::sharing made{options, b, where};
    wire::list root(items.size());
    std::vector<tensor_view> views(items.size());  // the views of those items that are tensors
    std::optional<device> first;
    for (std::size_t i = 0; i < items.size(); ++i) {
        auto const* const t = std::get_if<managed_tensor>(&items[i]);
        auto const* const c = std::get_if<column>(&items[i]);
        if (t != nullptr && !*t)
            detail::fail(errc::consumed, detail::share_api, where, "item ", i,
                         " is an empty managed_tensor, because it was moved from or released: pass one that has data");
        if (t != nullptr) views[i] = options.freeze ? t->view().as_read_only() : t->view();
        auto const place = t != nullptr ? t->device() : c->device();
        made.is_mixed |= !is_same_device(first.value_or(place), place) || (c != nullptr && c->view().is_mixed());
        first = first.value_or(place);
    }
    for (bool const is_read_only : {false, true})  // writable items first: they decide how common memory is shared
        for (std::size_t i = 0; i < items.size(); ++i) {
            auto const* const c = std::get_if<column>(&items[i]);
            if ((c != nullptr || views[i].is_read_only()) != is_read_only) continue;
            if (c != nullptr) made.add(c->view(), root[i].emplace<wire::node>());
            else made.add(views[i], i, root[i].emplace<wire::tensor>());
        }
    auto state = made.finish(std::move(root), first.value_or(cpu), owner);
    *owner = std::move(items);
    return detail::share_access::wrap(std::move(state));
}

FERRY_INLINE ferry::column shared::column(std::source_location where) const {
    constexpr auto api = "ferry::ipc::shared::column";
    if (!holds_column())
        detail::fail(errc::argument, api, where, "no column is shared here: call tensor(), or attach the descriptor");
    std::vector<detail::memory_range> ranges(state_->description.memories.size());
    for_each_part([&](auto const& part) {
        for (auto const& [m, begin, number] : part.memories)
            ranges[number] = {begin, static_cast<std::size_t>(m.length), part.device};
    });
    return detail::column_of(std::get<wire::node>(state_->description.root), ranges, state_, api, where);
}

}  // namespace FERRY_NAMESPACE::ipc
