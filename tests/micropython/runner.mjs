// Runs one Python file under MicroPython: node runner.mjs MICROPYTHON_MJS MAIN_PY [PATH_ON_BOARD=FILE ...]
// What it prints goes to standard output; an exception in it ends with status 1 and the traceback on standard error.
import { readFileSync } from "node:fs";
import { dirname } from "node:path/posix";
import { pathToFileURL } from "node:url";

const [library, main, ...files] = process.argv.slice(2);
const { loadMicroPython } = await import(pathToFileURL(library));

const board = await loadMicroPython({
  heapsize: 4 * 1024 * 1024,
  linebuffer: true,
  stdout: (line) => process.stdout.write(`${line}\n`),
});
for (const file of files) {
  const [target, source] = file.split("=", 2);
  board.FS.mkdirTree(dirname(target));
  board.FS.writeFile(target, readFileSync(source));
}
try {
  board.runPython(readFileSync(main, "utf8"));
} catch (error) {
  process.stderr.write(`${error.message}\n`);
  process.exitCode = 1;
}
