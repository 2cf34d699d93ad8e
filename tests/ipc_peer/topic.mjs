// Checks each value of the frames that examples/ipc/topic_reader.mjs yields. usage: topic.mjs NAME FRAMES
import assert from "node:assert";
import { readSync, writeSync } from "node:fs";
import { frames } from "../../examples/ipc/topic_reader.mjs";

let [last, n, count] = [0n, 0, Number(process.argv[3])];
for await (const { generation, shape, values } of frames(process.argv[2])) {
    assert(generation > last, `generation ${generation} after ${last}`);
    assert.deepEqual(shape, [3, 5000]);
    const first = 1e6 * Number(generation);
    assert(values instanceof Float64Array && values.every((v, i) => v === first + i), `frame ${generation} is torn`);
    last = generation;
    if (++n === Math.floor(count / 2) || n === count) writeSync(1, "frames\n");
    if (n === count) break;
    if (n === Math.floor(count / 2)) readSync(0, Buffer.alloc(1)); // until the next publisher has the name
}
