// The reader of streams, with producers that fail, and what streams export beyond chunked.cpp.
#include <ferry/arrow.hpp>

#include <support/allocation_failure.hpp>
#include <support/arrow_producer.hpp>
#include <support/fails.hpp>

#include <doctest/doctest.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

using ferry::column;
using ferry::column_buffer;
using ferry::column_parts;
using ferry::errc;
using support::fails;

namespace {

std::int32_t const numbers[] = {1, 2, 3, 4, 5};
column_buffer const five[] = {{}, {numbers, sizeof numbers}};

column make(char const* format, std::int64_t length, std::shared_ptr<void const> owner = nullptr,
            char const* name = "x") {
    column_parts const child{.format = format, .name = name, .length = length, .buffers = five};
    column_buffer const none[1]{};
    return ferry::make_column({.format = "+s", .name = "t", .length = length, .buffers = none, .children = {&child, 1}},
                              std::move(owner));
}

/// One decimal; a format without a width means 128 bits.
column decimals(char const* format) {
    static std::int64_t const one[2] = {1, 0};
    column_buffer const buffers[2] = {{}, {one, sizeof one}};
    return ferry::make_column({.format = format, .length = 1, .buffers = buffers}, nullptr);
}

/// Returns a number of chunks, then fails with a code, or ends when that is 0.
struct producer {
    int chunks = 0, result = 0, released = 0, asked = 0;
    char const* text = "the disk is on fire";
    ArrowArrayStream stream{};

    producer(int chunks_, int result_) : chunks{chunks_}, result{result_} {
        stream.private_data = this;
        stream.get_schema = [](ArrowArrayStream* s, ArrowSchema* out) {
            auto& me = *static_cast<producer*>(s->private_data);
            if (me.chunks < 0) return me.result;
            ferry::to_arrow_schema(make("i", 0), out);
            return 0;
        };
        stream.get_next = [](ArrowArrayStream* s, ArrowArray* out) {
            auto& me = *static_cast<producer*>(s->private_data);
            if (me.asked++ < me.chunks) return ferry::to_arrow(make("i", 5), out), 0;
            *out = ArrowArray{};
            return me.result;
        };
        stream.get_last_error = [](ArrowArrayStream* s) { return static_cast<producer*>(s->private_data)->text; };
        stream.release = [](ArrowArrayStream* s) {
            ++static_cast<producer*>(s->private_data)->released, s->release = nullptr;
        };
    }
};

std::vector<column> read_all(ferry::arrow_reader& reader) {
    std::vector<column> chunks;
    while (auto chunk = reader.next()) chunks.push_back(*std::move(chunk));
    return chunks;
}
void export_all(std::vector<column> const& chunks, ArrowArrayStream* out) {
    ferry::to_arrow(ferry::chunked{chunks, chunks[0]}, out);
}

}  // namespace

TEST_CASE("a stream returns its type and chunks, and is released at its end") {
    producer p{3, 0};
    ferry::arrow_reader reader{&p.stream};
    CHECK(!p.stream.release);
    CHECK(reader.type().format() == "+s");
    CHECK(reader.type().length() == 0);
    CHECK(read_all(reader).size() == 3);
    CHECK(p.released == 1);
    CHECK(!reader.next());
    CHECK(p.asked == 4);
}

TEST_CASE("a reader that is destroyed, or moved, releases its stream once") {
    producer p{3, 0};
    {
        ferry::arrow_reader reader{&p.stream};
        auto const first = reader.next();
        auto other = std::move(reader);
        CHECK(other.next());
        producer q{1, 0};
        ferry::arrow_reader third{&q.stream};
        other = std::move(third);
        CHECK(read_all(other).size() == 1);
        CHECK(q.released == 1);
    }
    CHECK(p.released == 1);
}

TEST_CASE("the error of a failed stream has its text, and its code determines the error code") {
    for (auto const& [result, code] : {std::pair{EINVAL, errc::argument},
                                       {ENOMEM, errc::out_of_memory},
                                       {EIO, errc::driver},
                                       {ENOSYS, errc::driver},
                                       {1234, errc::driver}}) {
        producer p{1, result};
        ferry::arrow_reader reader{&p.stream};
        fails(code, [&] { static_cast<void>(read_all(reader)); }, {"the stream failed with ", ": the disk is on fire"});
        CHECK(p.released == 0);
        producer silent{0, result};
        silent.text = nullptr;
        ferry::arrow_reader quiet{&silent.stream};
        fails(code, [&] { static_cast<void>(quiet.next()); }, {"the stream failed with "});
    }
}

TEST_CASE("a stream that does not return its schema stays the caller's") {
    producer p{-1, EIO};
    fails(errc::driver, [&] { static_cast<void>(ferry::arrow_reader{&p.stream}); }, {"EIO", "fire"});
    CHECK(!!p.stream.release);
    CHECK(p.released == 0);
    fails(errc::argument, [] { static_cast<void>(ferry::arrow_reader{nullptr}); }, {"null"});
    p.stream.release(&p.stream);
    fails(errc::argument, [&] { static_cast<void>(ferry::arrow_reader{&p.stream}); }, {"released"});
    producer q{1, 0};
    q.stream.get_next = nullptr;
    fails(errc::argument, [&] { static_cast<void>(ferry::arrow_reader{&q.stream}); }, {"callback"});
}

[[nodiscard]] static std::string what_is_said_of(char const* text) {
    producer p{0, EIO};
    p.text = text;
    ferry::arrow_reader reader{&p.stream};
    try {
        static_cast<void>(reader.next());
    } catch (ferry::error const& e) {
        ferry::arrow_stream_error const copy{dynamic_cast<ferry::arrow_stream_error const&>(e)};
        return copy.what();
    }
    return {};
}

TEST_CASE("an error text of several lines is reported completely") {
    constexpr auto text =
        "Key error: 'b'. Detail: Traceback (most recent call last):\n  File \"x.py\", line 7, in f\n    g()\nKeyError: 'b'";
    CHECK(what_is_said_of((std::string{text} + "\r\n\n").c_str()) ==
          std::string{"ferry::from_arrow: the stream failed with 5 (EIO): check the producer of the stream: "} + text);
}

TEST_CASE("an error text of 16 KiB is reported completely, and of a longer one the beginning and the end") {
    std::string const whole(16 * 1024, 'x');
    CHECK(what_is_said_of(whole.c_str()).ends_with(": " + whole));
    std::string const longer = "begin " + whole + " end";
    auto const said = what_is_said_of(longer.c_str());
    CHECK(said.find(": begin x") != std::string::npos);
    CHECK(said.find("x ... x") != std::string::npos);
    CHECK(said.ends_with("x end"));
    CHECK(said.size() < longer.size() + 100);
}

TEST_CASE("an error text of one line, or none, is reported unchanged") {
    for (auto const* const text : {"at the end\r\n", "at the end", ""}) {
        producer p{0, EIO};
        p.text = text;
        ferry::arrow_reader reader{&p.stream};
        fails(errc::driver, [&] { static_cast<void>(reader.next()); },
              {*text != '\0' ? "(EIO): check the producer of the stream: at the end" : "(EIO)"});
    }
}

TEST_CASE("an invalid chunk is refused, and released") {
    static support::arrow_producer* bad = nullptr;
    column_buffer const none[1]{};
    column_parts const child{.format = "i", .name = "x", .length = 2, .buffers = five};
    support::arrow_producer p{{.format = "+s", .name = "t", .length = 3, .buffers = none, .children = {&child, 1}}};
    bad = &p;
    producer s{1, 0};
    s.stream.get_next = [](ArrowArrayStream*, ArrowArray* out) {
        return *out = std::exchange(bad->array, ArrowArray{}), 0;
    };
    ferry::arrow_reader reader{&s.stream};
    fails(errc::bad_column, [&] { static_cast<void>(reader.next()); },
          {"ferry::from_arrow: t.x: it has 2 items, and its parent needs 3"});
    CHECK(p.arrays_released == 1);
}

TEST_CASE("slices of a table are exported as chunks whose children are sliced") {
    auto const whole = make("i", 5);
    ArrowArrayStream stream{};
    export_all({whole.slice(0, 2), whole.slice(2, 3)}, &stream);
    std::int64_t begin = 0;
    for (ArrowArray chunk{}; stream.get_next(&stream, &chunk) == 0 && chunk.release != nullptr;) {
        CHECK(chunk.offset == 0);
        CHECK(chunk.children[0]->offset == begin);
        CHECK(chunk.children[0]->length == chunk.length);
        CHECK(chunk.children[0]->buffers[1] == numbers);
        begin += chunk.length;
        chunk.release(&chunk);
    }
    CHECK(begin == 5);
    stream.release(&stream);
}

TEST_CASE("the schema of a stream covers all of its chunks") {
    auto const items = [](std::int64_t flags) {
        column_parts const child{.format = "i", .name = "x", .length = 5, .buffers = five, .flags = flags};
        column_buffer const none[1]{};
        return ferry::make_column({.format = "+s", .length = 5, .buffers = none, .children = {&child, 1}, .flags = 0},
                                  nullptr);
    };
    ArrowArrayStream stream{};
    export_all({items(0), items(2), items(0)}, &stream);
    ferry::arrow_reader reader{&stream};
    CHECK(!reader.type().view().is_nullable());
    CHECK(reader.type().view().child(0).is_nullable());
    CHECK(reader.next()->view().child(0).is_nullable());
}

TEST_CASE("all chunks of a stream have the same type") {
    ArrowArrayStream stream{};
    fails(errc::argument, [&] { export_all({make("i", 5), make("f", 5)}, &stream); },
          {"chunk 1 is of another type: t.x: its format is `f`, expected `i`"});
    fails(errc::argument, [&] { export_all({make("i", 5), make("i", 5, nullptr, "y")}, &stream); },
          {"chunk 1", "another name"});
    CHECK(!stream.release);
    export_all({decimals("d:9,2"), decimals("d:9,2,128")}, &stream);
    CHECK(ferry::arrow_reader{&stream}.next()->format() == "d:9,2");
    fails(errc::argument, [&] { export_all({decimals("d:9,2"), decimals("d:9,3")}, &stream); },
          {"chunk 1", "`d:9,3`, expected `d:9,2`"});
}

TEST_CASE("a failed allocation in a callback is its error, and the next call returns the schema") {
    ArrowArrayStream stream{};
    export_all({make("i", 5)}, &stream);
    ArrowArray array{};
    ArrowSchema schema{};
    CHECK(stream.get_last_error(&stream) == nullptr);
    {
        support::allocation_window const window{1};
        CHECK(stream.get_schema(&stream, &schema) == ENOMEM);
        CHECK(std::strstr(stream.get_last_error(&stream), "memory") != nullptr);
        CHECK(stream.get_next(&stream, &array) == 0);  // the chunk has been exported already
    }
    CHECK(stream.get_last_error(&stream) == nullptr);
    CHECK(array.length == 5);
    array.release(&array);
    CHECK(stream.get_schema(&stream, &schema) == 0);
    schema.release(&schema);
    CHECK(stream.get_next(&stream, &array) == 0);
    CHECK(!array.release);
    stream.release(&stream);
    CHECK(!stream.release);
}

TEST_CASE("every allocation of a reader may fail: nothing leaks, and the stream is released at most once") {
    auto const c = make("i", 5);
    CHECK(support::for_each_failing_allocation([&](int) {
              ArrowArrayStream stream{};
              export_all({c, c}, &stream);
              try {
                  ferry::arrow_reader reader{&stream};
                  static_cast<void>(read_all(reader));
              } catch (...) {
                  if (stream.release) stream.release(&stream);
                  try {
                      throw;
                  } catch (ferry::error const& e) {  // the stream's own ENOMEM
                      if (e.code() == errc::out_of_memory) throw std::bad_alloc{};
                      throw;
                  }
              }
          }) > 5);
}
