// ferry: the memory of an export: all structs of a tree in one allocation, which the last of them frees.
#pragma once

#include <ferry/abi/arrow.hpp>
#include <ferry/column/view.hpp>

#include <atomic>  // children may be moved out and released on other threads
#include <cstddef>
#include <cstdint>
#include <memory>  // what an array keeps alive is shared
#include <new>
#include <utility>

namespace ferry::inline FERRY_ABI_NAMESPACE::detail {

/// The head of the allocation. Behind it lie the structs but the root's, which is the caller's, then the pointers to
/// children, then what else the structs point to. Each struct that is not released holds a reference, so that each may
/// be moved out of its parent and released alone ("Moving child arrays"). `Struct` is ArrowArray or ArrowSchema.
template <class Struct>
struct export_block {
    std::atomic<std::int64_t> unreleased;
    std::shared_ptr<void const> owner;

    static void release(Struct* s) noexcept {
        auto* const block = static_cast<export_block*>(s->private_data);
        std::int64_t const released = block->release_tree(*s);
        if (block->unreleased.load(std::memory_order_acquire) != released &&
            block->unreleased.fetch_sub(released, std::memory_order_acq_rel) != released)
            return;
        block->~export_block();
        ::operator delete(block);
    }

   private:
    /// Marks what is left of a tree released; counts it.
    [[nodiscard]] std::int64_t release_tree(Struct& s) noexcept {
        std::int64_t released = 1;
        for (std::int64_t i = 0; i < s.n_children; ++i) released += release_child(*s.children[i]);
        if (s.dictionary != nullptr) released += release_child(*s.dictionary);
        s.release = nullptr;
        return released;
    }
    [[nodiscard]] std::int64_t release_child(Struct& s) noexcept {
        // mutant: arrow_release_last
        if (s.release == nullptr) return 0;  // moved out, or released alone
        if (s.release == &release && s.private_data == this) return release_tree(s);
        s.release(&s);  // the consumer replaced the child
        return 0;
    }
};

/// Hands out the parts of an export's memory.
template <class Struct>
class export_memory {
   public:
    /// \throws std::bad_alloc  when an allocation fails
    export_memory(std::size_t structs, std::size_t children, std::size_t more_bytes,
                  std::shared_ptr<void const> owner) {
        static_assert(sizeof(export_block<Struct>) % alignof(Struct) == 0 && alignof(Struct) == alignof(void*));
        auto* const memory = static_cast<unsigned char*>(::operator new(
            sizeof(export_block<Struct>) + (structs - 1) * sizeof(Struct) + children * sizeof(Struct*) + more_bytes));
        block_ = ::new (static_cast<void*>(memory))
            export_block<Struct>{{static_cast<std::int64_t>(structs)}, std::move(owner)};
        structs_ = memory + sizeof(export_block<Struct>);
        children_ = structs_ + (structs - 1) * sizeof(Struct);
        more_ = children_ + children * sizeof(Struct*);
    }
    [[nodiscard]] export_block<Struct>* block() const noexcept { return block_; }
    [[nodiscard]] Struct* next_struct() noexcept {
        return ::new (std::exchange(structs_, structs_ + sizeof(Struct))) Struct{};
    }
    [[nodiscard]] Struct** next_children(std::size_t n) noexcept {
        return reinterpret_cast<Struct**>(std::exchange(children_, children_ + n * sizeof(Struct*)));
    }
    [[nodiscard]] unsigned char* next_bytes(std::size_t n) noexcept { return std::exchange(more_, more_ + n); }

    /// The links of one struct: its children, its dictionary, and how it is released; `write(node, struct)` writes
    /// those below.
    template <class Write>
    void link(column_node const& node, Struct& out, Write write) {
        out.n_children = static_cast<std::int64_t>(node.children.size());
        if (out.n_children != 0) out.children = next_children(node.children.size());
        for (std::size_t i = 0; i < node.children.size(); ++i) {
            out.children[i] = next_struct();
            write(node.children[i], *out.children[i]);
        }
        if (node.dictionary != nullptr) {
            out.dictionary = next_struct();
            write(*node.dictionary, *out.dictionary);
        }
        out.release = &export_block<Struct>::release;
        out.private_data = block_;
    }

   private:
    export_block<Struct>* block_;
    unsigned char *structs_, *children_, *more_;
};

/// What an export of a tree takes.
struct export_size {
    std::size_t structs = 0, children = 0, buffers = 0, text = 0;

    explicit export_size(column_node const& node) noexcept { add(node); }
    void add(column_node const& node) noexcept {
        ++structs;
        children += node.children.size();
        buffers += node.buffers.size();
        text += node.format.size() + node.name.size() + node.metadata.size() + 2;  // two ends
        for (auto const& child : node.children) add(child);
        if (node.dictionary != nullptr) add(*node.dictionary);
    }
};

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::detail
