// The input of the benchmarks of Arrow's interfaces, structs of static memory whose release only marks them, and of
// those of copies.
#pragma once

#include <ferry/abi/arrow.hpp>
#include <ferry/column.hpp>

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

namespace bench {

inline std::int32_t values[1001];  // offsets, too
inline unsigned char bits[128];
inline constexpr std::int64_t columns = 10;

inline void release(ArrowArray* a) { a->release = nullptr; }
inline void release(ArrowSchema* s) { s->release = nullptr; }

/// A batch of ten columns, integers and strings by turns, of which the first is `column`.
class batch {
   public:
    explicit batch(std::int64_t rows = 1000) : rows_{rows} {
        for (std::int64_t i = 0; i < columns; ++i) {
            bool const is_text = i % 2 != 0;
            schemas_[i] = {is_text ? "u" : "i", "column", nullptr, 2, 0, nullptr, nullptr, release, nullptr};
            arrays_[i] = {rows, -1, 0, is_text ? 3 : 2, 0, buffers_, nullptr, nullptr, release, nullptr};
            schema_pointers_[i] = &schemas_[i], array_pointers_[i] = &arrays_[i];
        }
    }
    [[nodiscard]] ArrowArray column() const { return arrays_[0]; }
    [[nodiscard]] ArrowSchema column_schema() const { return schemas_[0]; }
    [[nodiscard]] ArrowArray array() {
        return {rows_, 0, 0, 1, columns, &none_, array_pointers_, nullptr, release, nullptr};
    }
    [[nodiscard]] ArrowSchema schema() {
        return {"+s", "batch", nullptr, 0, columns, schema_pointers_, nullptr, release, nullptr};
    }

   private:
    std::int64_t rows_;
    void const* none_ = nullptr;
    void const* buffers_[3] = {bits, values, values};
    ArrowSchema schemas_[columns];
    ArrowArray arrays_[columns];
    ArrowSchema* schema_pointers_[columns];
    ArrowArray* array_pointers_[columns];
};

/// Runs `f(array, schema)` on structs of a producer's own: of one column, or of a batch.
template <class F>
void each(benchmark::State& state, F f) {
    batch b;
    bool const is_batch = state.range(0) != 1;
    for (auto _ : state) {
        ArrowArray array = is_batch ? b.array() : b.column();
        ArrowSchema schema = is_batch ? b.schema() : b.column_schema();
        benchmark::DoNotOptimize(&array);
        benchmark::DoNotOptimize(&schema);
        f(array, schema);
    }
}

/// A stream of 16,000 batches of two rows, which is not released.
class two_row_batches {
   public:
    [[nodiscard]] ArrowArrayStream stream() {
        left_ = 16'000;
        ArrowArrayStream s{};
        s.get_schema = [](ArrowArrayStream* from, ArrowSchema* out) { return *out = of(from).batch_.schema(), 0; };
        s.get_next = [](ArrowArrayStream* from, ArrowArray* out) {
            auto& me = of(from);
            return *out = me.left_-- > 0 ? me.batch_.array() : ArrowArray{}, 0;
        };
        s.get_last_error = [](ArrowArrayStream*) -> char const* { return nullptr; };
        s.release = [](ArrowArrayStream* from) { from->release = nullptr; };
        s.private_data = this;
        return s;
    }

   private:
    [[nodiscard]] static two_row_batches& of(ArrowArrayStream* s) {
        return *static_cast<two_row_batches*>(s->private_data);
    }

    batch batch_{2};
    std::int64_t left_ = 0;
};

/// Reads a stream to its end.
inline void drain(ArrowArrayStream& stream) {
    for (ArrowArray chunk; stream.get_next(&stream, &chunk) == 0 && chunk.release != nullptr;) chunk.release(&chunk);
    stream.release(&stream);
}

/// 1,600 chunks of two items, whose dictionaries have 20 integers in one of seven orders, each in its own memory.
[[nodiscard]] inline std::vector<ferry::column> dictionary_chunks() {
    struct owner {
        std::int32_t words[20];
        std::int8_t indices[2]{3, 17};
    };
    std::vector<ferry::column> all;
    for (std::int32_t i = 0; i < 1'600; ++i) {
        auto const o = std::make_shared<owner>();
        for (std::int32_t k = 0; k < 20; ++k) o->words[k] = (k + i % 7) % 20;
        ferry::column_buffer const words[] = {{}, {o->words, sizeof o->words}}, indices[] = {{}, {o->indices, 2}};
        ferry::column_parts const dictionary{.format = "i", .length = 20, .buffers = words};
        all.push_back(
            ferry::make_column({.format = "c", .length = 2, .buffers = indices, .dictionary = &dictionary}, o));
    }
    return all;
}

/// Slices of `rows` items, from the fourth on, of one column of integers (`i`) or of texts of eight bytes (`u`). With
/// `nulls`, every eighth item is null.
[[nodiscard]] inline std::vector<ferry::column> slices(char const* format, bool nulls, std::int64_t rows,
                                                       std::int64_t count) {
    struct owner {
        std::vector<std::byte> valid;
        std::vector<std::int32_t> numbers;  // values or offsets
        std::vector<std::byte> text;
    };
    auto const items = 3 + rows * count;
    auto const n = static_cast<std::size_t>(items);
    auto const o = std::make_shared<owner>();
    o->valid.assign(n / 8 + 1, std::byte{0x7f});
    o->numbers.resize(n + 1);
    std::iota(o->numbers.begin(), o->numbers.end(), 0);
    ferry::column_buffer buffers[] = {{}, {o->numbers.data(), 4 * (items + 1)}, {}};
    if (nulls) buffers[0] = {o->valid.data(), items / 8 + 1};
    bool const is_text = *format == 'u';
    if (is_text) {
        for (auto& offset : o->numbers) offset *= 8;
        o->text.resize(8 * n, std::byte{'a'});
        buffers[2] = {o->text.data(), 8 * items};
    }
    auto const whole = ferry::make_column(
        {.format = format, .length = items, .buffers = {buffers, is_text ? std::size_t{3} : std::size_t{2}}}, o);
    std::vector<ferry::column> all;
    for (std::int64_t i = 0; i < count; ++i) all.push_back(whole.slice(3 + i * rows, rows));
    return all;
}

}  // namespace bench
