// Memory pages that can be made inaccessible or read-only, so that an access out of bounds ends the test.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <new>

namespace support {

/// Two pages. The first is for the test, the second can be made inaccessible.
class two_pages {
   public:
    two_pages() {
        void* const at = ::mmap(nullptr, 2 * size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED) throw std::bad_alloc{};
        begin_ = static_cast<std::byte*>(at);
    }
    two_pages(two_pages const&) = delete;
    two_pages& operator=(two_pages const&) = delete;
    ~two_pages() { ::munmap(begin_, 2 * size()); }

    [[nodiscard]] static std::size_t size() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }
    [[nodiscard]] std::byte* first() const noexcept { return begin_; }
    [[nodiscard]] std::byte* second() const { return begin_ + size(); }
    /// Makes every access to the second page a crash.
    void close_second() const { ::mprotect(second(), size(), PROT_NONE); }
    /// Makes every write to the pages a crash.
    void make_read_only() const { ::mprotect(begin_, 2 * size(), PROT_READ); }

   private:
    std::byte* begin_ = nullptr;
};

}  // namespace support
