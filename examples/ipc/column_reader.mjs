// Reads a table in host memory that ferry shares, without ferry: columns of numbers, booleans and text.
//
// usage: node column_reader.mjs < DESCRIPTOR.json      prints the rows as JSON

import assert from "node:assert";
import { openSync, readFileSync, readSync } from "node:fs";

const NUMBERS = {
    c: Int8Array, C: Uint8Array, s: Int16Array, S: Uint16Array, i: Int32Array, I: Uint32Array,
    l: BigInt64Array, L: BigUint64Array, f: Float32Array, g: Float64Array,
};
const ENDS_OF_TEXT = { u: Int32Array, U: BigInt64Array };
const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

const auxv = new BigUint64Array(new Uint8Array(readFileSync("/proc/self/auxv")).buffer);
const pageSize = Number(auxv[auxv.findIndex((tag, i) => i % 2 === 0 && tag === 6n) + 1]); // AT_PAGESZ
const controlPage = Math.max(pageSize, 16384); // precedes the data

/** A copy of the shared range of one allocation. */
function content({ kind, name, ...memory }) {
    if (kind === "none") return new Uint8Array(); // the table is empty
    assert(kind === "host_shared" && /^\/[^/]+$/.test(name), `cannot open memory of kind ${kind}`);
    const [size, begin, length] = [memory.allocation, memory.offset, memory.length].map(Number);
    assert(begin + length <= size, "a range exceeds its allocation");
    const [file, bytes] = [openSync("/dev/shm" + name), new Uint8Array(length)];
    for (let done = 0, read; done < length; done += read) {
        read = readSync(file, bytes, done, Math.min(length - done, 1 << 30), controlPage + begin + done);
        assert(read > 0, "a segment is smaller than its allocation");
    }
    return bytes;
}

/** Items of a node; the offset and length of a struct apply to its children. */
function items(node, memories, first = 0, count = Number(node.length)) {
    const [{ format, children }, begin] = [node, Number(node.offset) + first];
    const parts = node.buffers.map((b) => b && memories[b.memory].subarray(Number(b.offset), Number(b.offset) + Number(b.length)));
    const bit = (bytes, i) => (bytes[Math.floor(i / 8)] >> i % 8) & 1; // lowest first
    // The numbers from `begin`, in a copy, because a typed array requires alignment.
    const numbers = (Type, n) => new Type(n ? parts[1].slice(begin * Type.BYTES_PER_ELEMENT).buffer : [], 0, n);
    const columns = format === "+s" ? children.map((c) => items(c, memories, begin, count)) : [];
    const ends = format in ENDS_OF_TEXT ? numbers(ENDS_OF_TEXT[format], count && count + 1) : [];
    const values = format in NUMBERS ? numbers(NUMBERS[format], count) : [];
    assert(/^(\+s|[buU])$/.test(format) || format in NUMBERS, `the format ${format} is not supported`);
    const words = node.dictionary && items(node.dictionary, memories); // then the values are indices
    return Array.from({ length: count }, (_, i) => {
        if (parts[0] && !bit(parts[0], begin + i)) return null; // without a validity buffer, there are no nulls
        if (format === "+s") return Object.fromEntries(children.map((c, k) => [c.name, columns[k][i]]));
        if (words) return assert(values[i] in words, "an index is outside of its dictionary"), words[values[i]];
        if (format === "b") return bit(parts[1], begin + i) === 1;
        return format in NUMBERS ? values[i] : UTF8.decode(parts[2]?.subarray(Number(ends[i]), Number(ends[i + 1])));
    });
}

const quoted = JSON.stringify; // does not accept integers of 64 bits
const json = (x) => Array.isArray(x) ? `[${x.map(json)}]` : typeof x === "string" ? quoted(x) : typeof x !== "object" || !x ? String(x)
    : `{${Object.entries(x).map(([key, value]) => `${quoted(key)}:${json(value)}`)}}`;

const { version, memories, column } = JSON.parse(readFileSync(0, "utf8"));
assert(version.major === 2, `expected major version 2, got ${version.major}`);
console.log(json(items(column, memories.map(content))));
