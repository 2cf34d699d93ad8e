// Exports a column as tensors, concatenates two columns, and shares the result with another process.
#include <ferry/column.hpp>
#include <ferry/column/concat.hpp>
#include <ferry/ipc.hpp>
#include <ferry/wire/binary.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace {

struct readings {
    std::vector<float> values{20.5f, 0.0f, 21.25f};
    unsigned char is_valid[1] = {0b101};
};

ferry::column make_readings() {
    auto const r = std::make_shared<readings const>();
    ferry::column_buffer const buffers[] = {{r->is_valid, 1}, {r->values.data(), 12}};
    return ferry::make_column({.format = "f", .name = "celsius", .length = 3, .buffers = buffers}, r);
}

int importer(int from) {
    std::vector<std::byte> bytes(4096);
    auto const n = read(from, bytes.data(), bytes.size());
    bytes.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    // [attach]
    ferry::column const c = ferry::ipc::attach_column(ferry::wire::from_bytes(bytes));
    // [/attach]
    std::printf("%s: %d items, %d nulls\n", std::string{c.name()}.c_str(), static_cast<int>(c.length()), static_cast<int>(c.null_count()));
    return c.length() == 4 && c.null_count() == 1 ? 0 : 1;
}

}  // namespace

int main() {
    ferry::column const c = make_readings();
    // [tensors]
    auto const [data, validity] = ferry::to_dlpack(c);  // both own the memory; validity is empty if there are no nulls
    // [/tensors]
    // [concat]
    ferry::column const chunks[] = {c, c.slice(2, 1)};
    ferry::column const joined = ferry::concat(chunks);  // one allocation; offset 0
    // [/concat]

    int down[2];
    if (pipe(down) != 0) return 1;
    if (fork() == 0) return importer(down[0]);
    // [place]
    ferry::ipc::session session;
    ferry::column const in_shared_memory = joined.to(ferry::ipc::shared_space{session});  // or an error
    ferry::ipc::shared const uncopied =
        ferry::ipc::share(in_shared_memory, {.session = &session, .copy = ferry::copy_policy::never});
    // [/place]
    // [share]
    ferry::ipc::shared const shared = ferry::ipc::share(joined);
    auto const bytes = ferry::wire::to_bytes(shared.descriptor());
    // [/share]
    if (write(down[1], bytes.data(), bytes.size()) < 0) return 1;
    int status = 1;
    wait(&status);
    return validity && !data.is_copied() && !uncopied.copied() && joined.length() == 4 && status == 0 ? 0 : 1;
}
