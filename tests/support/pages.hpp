// Memory pages that can be made inaccessible or read-only, so that an access out of bounds ends the test.
#pragma once

#ifdef _WIN32
#ifndef NOMINMAX
#define NOMINMAX
#endif
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#undef far  // names of tests
#undef near
#else
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#endif

#include <cstddef>
#include <cstdlib>
#include <new>

namespace support {

enum class page_access { none, read };

// Pages of a file without a name, so that two ranges can show the same memory. The last function runs `f` and returns
// whether it accessed a page that it must not.
#ifdef _WIN32

using page_file = HANDLE;
inline page_file const no_page_file = nullptr;

[[nodiscard]] inline std::size_t page_size() {
    SYSTEM_INFO info;
    ::GetSystemInfo(&info);
    return info.dwPageSize;
}
[[nodiscard]] inline page_file make_page_file(std::size_t bytes) {
    auto const file = ::CreateFileMappingW(INVALID_HANDLE_VALUE, nullptr, PAGE_READWRITE, static_cast<DWORD>(bytes >> 32),
                                           static_cast<DWORD>(bytes), nullptr);
    if (file == no_page_file) throw std::bad_alloc{};
    return file;
}
inline void close_page_file(page_file file) { ::CloseHandle(file); }
[[nodiscard]] inline std::byte* map_pages(page_file file, std::size_t bytes) {
    void* const at = ::MapViewOfFile(file, FILE_MAP_WRITE, 0, 0, bytes);
    if (at == nullptr) std::abort();
    return static_cast<std::byte*>(at);
}
inline void unmap_pages(std::byte* at, std::size_t) { ::UnmapViewOfFile(at); }
inline void protect_pages(std::byte* at, std::size_t bytes, page_access access) {
    DWORD old;
    if (!::VirtualProtect(at, bytes, access == page_access::none ? PAGE_NOACCESS : PAGE_READONLY, &old)) std::abort();
}
template <class F>
[[nodiscard]] bool faults(F f) {
    static thread_local bool is_watched = false;  // the access ends the thread, since there is no fork
    auto const watch = [](EXCEPTION_POINTERS* e) -> LONG {
        if (is_watched && e->ExceptionRecord->ExceptionCode == EXCEPTION_ACCESS_VIOLATION)
            ::ExitThread(EXCEPTION_ACCESS_VIOLATION);
        return EXCEPTION_CONTINUE_SEARCH;
    };
    auto const body = [](void* of) -> DWORD {
        is_watched = true;
        (*static_cast<F*>(of))();
        return 0;
    };
    auto* const handler = ::AddVectoredExceptionHandler(1, watch);
    auto* const thread = ::CreateThread(nullptr, 0, body, &f, 0, nullptr);
    if (handler == nullptr || thread == nullptr) std::abort();
    DWORD status = 0;
    ::WaitForSingleObject(thread, INFINITE);
    ::GetExitCodeThread(thread, &status);
    ::CloseHandle(thread);
    ::RemoveVectoredExceptionHandler(handler);
    return status == EXCEPTION_ACCESS_VIOLATION;
}

#else

using page_file = int;
inline constexpr page_file no_page_file = -1;

[[nodiscard]] inline std::size_t page_size() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }
[[nodiscard]] inline page_file make_page_file(std::size_t bytes) {
    int const file = ::memfd_create("pages", MFD_CLOEXEC);
    if (file < 0 || ::ftruncate(file, static_cast<off_t>(bytes)) != 0) throw std::bad_alloc{};
    return file;
}
inline void close_page_file(page_file file) { ::close(file); }
[[nodiscard]] inline std::byte* map_pages(page_file file, std::size_t bytes) {
    void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (at == MAP_FAILED) std::abort();
    return static_cast<std::byte*>(at);
}
inline void unmap_pages(std::byte* at, std::size_t bytes) { ::munmap(at, bytes); }
inline void protect_pages(std::byte* at, std::size_t bytes, page_access access) {
    if (::mprotect(at, bytes, access == page_access::none ? PROT_NONE : PROT_READ) != 0) std::abort();
}
template <class F>
[[nodiscard]] bool faults(F f) {
    pid_t const child = ::fork();
    if (child == 0) {
        std::signal(SIGSEGV, SIG_DFL);
        f();
        ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

#endif

/// Two pages. The first is for the test, the second can be made inaccessible.
class two_pages {
   public:
    two_pages() = default;
    two_pages(two_pages const&) = delete;
    two_pages& operator=(two_pages const&) = delete;
    ~two_pages() {
        unmap_pages(begin_, 2 * size());
        close_page_file(file_);
    }

    [[nodiscard]] static std::size_t size() { return page_size(); }
    [[nodiscard]] std::byte* first() const noexcept { return begin_; }
    [[nodiscard]] std::byte* second() const { return begin_ + size(); }
    /// Makes every access to the second page a crash.
    void close_second() const { protect_pages(second(), size(), page_access::none); }
    /// Makes every write to the pages a crash.
    void make_read_only() const { protect_pages(begin_, 2 * size(), page_access::read); }

   private:
    page_file file_ = make_page_file(2 * size());
    std::byte* begin_ = map_pages(file_, 2 * size());
};

}  // namespace support
