// Columns with one allocation for each buffer, and a table of many columns.
#pragma once

#include <ferry/column.hpp>
#include <ferry/space/buffer.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace support {

/// Makes copies of columns whose buffers have one allocation each. What nodes share, the copies share.
class split_columns {
   public:
    /// \param place  allocates memory with these bytes; `owner` keeps it
    using place_bytes = std::function<void*(void const* bytes, std::size_t size, std::shared_ptr<void>& owner)>;

    split_columns(ferry::device d, place_bytes place) : device_{d}, place_{std::move(place)} {}

    [[nodiscard]] ferry::column put(ferry::column const& c) {
        kept_ = std::make_shared<kept>();
        auto root = parts_of(c.view());
        root.offset = c.offset();
        root.length = c.length();
        root.null_count = -1;
        return ferry::make_column(root, std::exchange(kept_, nullptr), device_);
    }

   private:
    struct kept {
        std::deque<std::shared_ptr<void>> memory;
        std::map<std::pair<void const*, std::int64_t>, void*> placed;
        std::deque<std::vector<ferry::column_buffer>> buffers;
        std::deque<std::vector<ferry::column_parts>> parts;
    };
    [[nodiscard]] static std::int64_t bytes_of(ferry::column_view whole, std::size_t i) {
        auto const layout = whole.layout();
        if (whole.buffers()[i].bytes >= 0) return whole.buffers()[i].bytes;
        if (i >= static_cast<std::size_t>(layout.buffer_count)) {  // variadic buffers of views
            auto const count = static_cast<std::int64_t>(whole.buffers().size()) - layout.buffer_count - 1;
            auto const k = static_cast<std::int64_t>(i) - layout.buffer_count;
            return k == count ? 8 * count : static_cast<std::int64_t const*>(whole.buffers().back().data)[k];
        }
        std::int64_t bytes = 0;
        static_cast<void>(ferry::needed_bytes(whole.type(), layout.buffers[i], whole.offset() + whole.length(), bytes));
        if (layout.buffers[i].kind != ferry::buffer_kind::bytes) return bytes;
        auto const end = whole.offset() + whole.length();
        return layout.buffers[1].bits == 64 ? ferry::detail::load<std::int64_t>(whole.buffers()[1].data, end)
                                            : ferry::detail::load<std::int32_t>(whole.buffers()[1].data, end);
    }
    [[nodiscard]] ferry::column_parts parts_of(ferry::column_view c) {
        ferry::column_view const whole{c.node()};
        auto& buffers = kept_->buffers.emplace_back();
        for (std::size_t i = 0; i < c.buffers().size(); ++i) {
            auto const b = c.buffers()[i];
            auto const bytes = b.data == nullptr ? 0 : bytes_of(whole, i);
            if (bytes == 0) {
                buffers.push_back({b.data, b.bytes});
                continue;
            }
            auto& data = kept_->placed[{b.data, bytes}];
            if (data == nullptr) data = place_(b.data, static_cast<std::size_t>(bytes), kept_->memory.emplace_back());
            buffers.push_back({data, b.bytes});
        }
        std::vector<ferry::column_parts> children;
        for (int i = 0; i < c.child_count(); ++i) children.push_back(parts_of(c.child(i)));
        if (c.has_dictionary()) {
            auto d = parts_of(c.dictionary());
            children.push_back(d);
        }
        auto& all = kept_->parts.emplace_back(std::move(children));
        auto const count = static_cast<std::size_t>(c.child_count());
        return {.format = c.format(),
                .name = c.name(),
                .length = c.length(),
                .offset = c.offset(),
                .buffers = buffers,
                .children = {all.data(), count},
                .dictionary = c.has_dictionary() ? &all[count] : nullptr,
                .flags = c.flags(),
                .metadata = c.metadata()};
    }

    ferry::device device_;
    place_bytes place_;
    std::shared_ptr<kept> kept_;
};

/// Makes such copies in a memory space; `fill(to, from, bytes)` writes them.
template <class Space, class Fill>
[[nodiscard]] split_columns split_into(ferry::device d, Space space, Fill fill) {
    return {d, [space, fill](void const* bytes, std::size_t size, std::shared_ptr<void>& owner) {
                auto const memory = std::make_shared<ferry::buffer<Space>>(size, space);
                fill(memory->data(), bytes, size);
                owner = memory;
                return static_cast<void*>(memory->data());
            }};
}

/// A table of columns "c0", "c1", … of three integers, the second of which is null: column k contains k, k + 1, k + 2.
/// The columns have one validity buffer.
inline ferry::column wide_table(std::size_t columns) {
    struct owner {
        unsigned char valid = 0b101;
        std::vector<std::array<std::int32_t, 3>> values;
        std::vector<std::array<ferry::column_buffer, 2>> buffers;
        std::vector<std::string> names;
    };
    auto const o = std::make_shared<owner>();
    o->values.resize(columns);
    o->buffers.resize(columns);
    o->names.resize(columns);
    std::vector<ferry::column_parts> children;
    for (std::size_t k = 0; k < columns; ++k) {
        auto const first = static_cast<std::int32_t>(k);
        o->values[k] = {first, first + 1, first + 2};
        o->buffers[k] = {{{&o->valid, 1}, {&o->values[k], sizeof o->values[k]}}};
        o->names[k] = "c" + std::to_string(k);
        children.push_back({.format = "i", .name = o->names[k].c_str(), .length = 3, .buffers = o->buffers[k]});
    }
    ferry::column_buffer const none[] = {{}};
    return ferry::make_column({.format = "+s", .length = 3, .buffers = none, .children = children}, o);
}

}  // namespace support
