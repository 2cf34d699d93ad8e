// ferry: describes a column whose buffers are shared.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/column/column.hpp>
#include <ferry/column/detail/path.hpp>
#include <ferry/column/detail/used_bytes.hpp>
#include <ferry/column/layout.hpp>
#include <ferry/column/view.hpp>
#include <ferry/ipc/detail/column_memory.hpp>
#include <ferry/space/back_end.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>  // see region.hpp
#include <source_location>
#include <utility>

namespace ferry::inline FERRY_ABI_NAMESPACE::ipc::detail {

/// One share of a column.
template <class BackEnd>
class column_sharing {
   public:
    column_sharing(column const& c, std::shared_ptr<session_state> session, copy_policy copy, bool freeze,
                   stream_token on, BackEnd& b, std::source_location where)
        : column_{c},
          memory_{std::move(session), copy, freeze, on, c.view(), b, where},
          copy_{copy},
          b_{b},
          where_{where},
          is_missing_{copy == copy_policy::always} {}

    /// When some bytes must be copied, the tree is described again, cut to the items of the view as far as that can be
    /// done without reading the buffers.
    [[nodiscard]] std::shared_ptr<share_state> run() {
        wire::node root;
        ferry::detail::column_path const path{column_.name()};
        if (!is_missing_) describe(column_.view(), path, root);
        if (is_missing_) {
            is_cut_ = true;
            root = {};
            describe(column_.view(), path, root);
            memory_.copy_missing();
        }
        return memory_.finish(std::move(root), column_.owner(), column_.device());
    }

   private:
    /// Whether the tree is described in vain.
    [[nodiscard]] bool is_over() const noexcept { return is_missing_ && !is_cut_; }

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
        bool const is_on_host = is_host_accessible(place);
        if (b.data == nullptr || is_over()) return;
        bool const is_variadic = i >= static_cast<std::size_t>(layout.buffer_count);
        // Their slices tell the lengths of data buffers.
        if (is_variadic && i + 1 == c.buffers().size() && place.type == device_type::cpu) return;
        auto const kind = is_variadic ? buffer_kind::bytes : layout.buffers[i].kind;
        auto used = ferry::detail::used_bytes(c, i, unused);
        if (!is_cut_ && b.bytes >= 0) used = {static_cast<std::byte const*>(b.data), b.bytes};
        auto const read_end = [&] {
            auto const on = place.type == device_type::cpu ? stream_token{} : memory_.copies_on(place);
            static_cast<void>(ferry::detail::read_end(c, i, path, b_, on, used.bytes, {share_api, where_}));
        };
        // A device's offsets are read only when they must be; otherwise the data may go to the end of its allocation.
        bool const is_offset_data = kind == buffer_kind::bytes && !is_variadic && c.length() != 0;
        if (is_on_host && (used.bytes < 0 || (is_cut_ && is_offset_data))) read_end();
        if (used.bytes == 0) return;
        auto const name = [&] { return message{} << path << ": " << ferry::name(kind) << " buffer"; };
        char const* const refusal = memory_.locate(used.begin, used.bytes, place, name, out);
        if (refusal == nullptr) return;
        if (copy_ == copy_policy::never)
            fail(is_on_host ? errc::copy_needed : errc::not_exportable, share_api,
                 name() << ": " << refusal << ", and a copy is forbidden: "
                        << (is_on_host ? "allocate it from ferry::ipc::shared_space of the session"
                                       : "allow a copy, or share memory that has a handle"),
                 where_);
        is_missing_ = true;
        if (!is_cut_) return;
        if (used.bytes < 0) read_end();
        if (used.bytes != 0)
            memory_.add_missing(used.begin, used.bytes, place, out, message{} << path << ": " << ferry::name(kind));
    }

    column const& column_;
    column_memory<BackEnd> memory_;
    copy_policy copy_;
    BackEnd& b_;
    std::source_location where_;
    bool is_missing_, is_cut_ = false;
};

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::ipc::detail
