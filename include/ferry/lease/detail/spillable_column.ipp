// ferry: the engine of spillable_column.
#pragma once

#include <ferry/lease/spillable_column.hpp>

#include <ferry/base/detail/check_stream.hpp>
#include <ferry/base/error.hpp>
#include <ferry/column/detail/tree.hpp>
#include <ferry/column/detail/used_bytes.hpp>
#include <ferry/lease/spillable.hpp>
#include <ferry/tensor/make_managed.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>  // std::less, which orders pointers into different objects
#include <vector>      // one entry for each allocation

namespace FERRY_NAMESPACE::detail {

/// Bytes of a column when it was adopted, the allocation that contains them, and their offset in it.
struct column_part {
    std::byte const* begin;
    std::size_t bytes;
    std::size_t at = 0;
    allocation_handle memory{};
};

/// The tree of an adopted column, with the buffers at the time of the adoption, and the allocations.
struct adopted_column {
    std::shared_ptr<spill_core> core;
    column_tree tree{};
    std::vector<column_part> parts{};  // by address
};

/// Reads a view for a new tree. Its buffers have the current addresses of the allocations; without parts, the addresses
/// at the time of the adoption.
struct moved_source : column_view {
    std::vector<column_part> const* parts = nullptr;

    [[nodiscard]] std::size_t buffer_count() const noexcept { return buffers().size(); }
    [[nodiscard]] column_buffer buffer(std::size_t i) const noexcept {
        auto const b = buffers()[i];
        if (parts == nullptr) return b;
        auto const* const data = static_cast<std::byte const*>(b.data);
        auto const after = std::upper_bound(parts->begin(), parts->end(), data, [](auto const* p, auto const& part) {
            return std::less<>{}(p, part.begin);
        });
        if (data == nullptr || after == parts->begin()) return {};
        auto const& part = *(after - 1);
        auto const offset = static_cast<std::size_t>(data - part.begin);
        if (offset >= part.bytes) return {};  // no item uses the buffer
        auto const rest = static_cast<std::int64_t>(part.bytes - offset);
        return {part.memory.get().base + part.at + offset, b.bytes < 0 || b.bytes > rest ? rest : b.bytes};
    }
    [[nodiscard]] moved_source child(std::size_t i) const noexcept {
        return {child_of(*this, static_cast<int>(i)), parts};
    }
    [[nodiscard]] moved_source dictionary() const noexcept { return {dictionary_of(*this), parts}; }
};

/// Returns the allocations of a column: one for all buffers if it is known, otherwise one for each buffer.
[[nodiscard]] inline std::vector<copied_range> allocations_of(column const& c, back_end_ref b, stream_token on,
                                                              reporter r) {
    std::vector<copied_range> ranges, runs;
    auto const arena = c.view().node().arena;
    if (!arena.empty()) return {{arena.data(), static_cast<std::int64_t>(arena.size())}};
    static_cast<void>(for_each_node(c.view(), column_path{c.name()}, [&](column_view n, column_path const& path) {
        column_view const whole{n.node()};  // so that slices have the same allocations
        for (std::size_t i = 0; i < whole.buffers().size(); ++i) {
            auto used = used_bytes(whole, i, 0);
            if (used.bytes < 0 && !read_end(whole, i, path, b, on, used.bytes, r)) return false;
            if (used.bytes != 0) ranges.push_back({used.begin, used.bytes});
        }
        return true;
    }));
    static_cast<void>(lay_out(ranges, runs));
    return runs;
}

FERRY_INLINE std::shared_ptr<adopted_column const> adopt_column(std::shared_ptr<spill_core> core, column& c,
                                                                stream_token on, std::size_t reserved,
                                                                record const& call) {
    reporter const r{call.api, call.where};
    auto const place = core->device();
    if (!is_same_device(c.device(), place))
        static_cast<void>(report(r, errc::device,
                                 message{"the column is on "}
                                     << name(c.device().type) << ":" << c.device().id << ", expected "
                                     << name(place.type) << ":" << place.id
                                     << ", the device of the memory space: pass a column of that device"));
    static_cast<void>(check_one_device(c.view(), "move the children to one device", r));
    static_cast<void>(check_stream(on, place, r));
    auto made = std::make_shared<adopted_column>();
    made->core = std::move(core);
    static_cast<void>(build(made->tree, moved_source{c.view()}, place, r));
    auto const runs = allocations_of(c, made->core->back_end(), on, r);
    std::vector<std::unique_ptr<allocation>> fresh;
    for (auto const& run : runs) {
        made->parts.push_back({run.begin, static_cast<std::size_t>(run.bytes)});
        auto& part = made->parts.back();
        if (auto* const known = made->core->find(c.owner(), part.begin, part.bytes); known != nullptr) {
            part.memory = {made->core, known};
            part.at = static_cast<std::size_t>(part.begin - known->base);
        } else {
            tensor_view const view{
                static_cast<void const*>(run.begin), dtype_of<std::uint8_t>, {&run.bytes, 1}, {}, place};
            auto original = own(std::shared_ptr<void const>{c.owner()}, view, flags::none, version::current, r);
            fresh.push_back(made->core->describe(original, on, call).value());
        }
    }
    std::vector<allocation*> made_now;
    for (auto const& a : fresh) made_now.push_back(a.get());
    made->core->admit(fresh, reserved, c.owner());
    auto next = made_now.begin();
    for (auto& part : made->parts)
        if (!part.memory) part.memory = {made->core, *next++};
    c = {};
    static_cast<void>(made->core->free_up(0));  // `c` kept the memory until now
    return made;
}

FERRY_INLINE column lend_column(adopted_column const* c, stream_token on, record const& call) {
    reporter const r{call.api, call.where};
    if (c == nullptr)
        static_cast<void>(report(r, errc::consumed, "the spillable_column is empty: pass the result of adopt"));
    auto leases = std::make_shared<std::vector<lease>>();
    leases->reserve(c->parts.size());
    for (auto const& part : c->parts) {
        c->core->begin(part.memory.get(), on, false, call).value();
        leases->emplace_back(c->core, part.memory.get(), on, false);
    }
    auto tree = std::make_shared<column_tree>();
    tree->owner = std::move(leases);
    static_cast<void>(build(*tree, moved_source{{c->tree.root()}, &c->parts}, c->core->device(), r));
    return column_access::make(std::move(tree));
}

}  // namespace FERRY_NAMESPACE::detail
