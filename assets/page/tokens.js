// Token bytes to text. A character may span several tokens and a token need not be valid UTF-8,
// so nothing here ever decodes one token by itself or lets a replacement character through.
(function () {
  "use strict";
  const DFlashViz = window.DFlashViz;
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

  function fromLatin1(text) {
    return Uint8Array.from(text, (character) => character.charCodeAt(0));
  }

  function hex(bytes) {
    const pairs = Array.from(bytes, (byte) => byte.toString(16).toUpperCase().padStart(2, "0"));
    return "⟨" + pairs.join(" ") + "⟩";
  }

  function isContinuation(byte) {
    return (byte & 0xc0) === 0x80;
  }

  function characterLength(lead) {
    if (lead < 0x80) return 1;
    if (lead >= 0xc2 && lead <= 0xdf) return 2;
    if (lead >= 0xe0 && lead <= 0xef) return 3;
    return lead >= 0xf0 && lead <= 0xf4 ? 4 : 0;
  }

  function decode(bytes) {
    try {
      return decoder.decode(bytes);
    } catch (error) {
      return null;
    }
  }

  // The character at `start`: its text, or null when its bytes are invalid or still incomplete (`open`).
  function characterAt(bytes, start) {
    const length = characterLength(bytes[start]);
    let end = start + 1;
    while (end < start + length && end < bytes.length && isContinuation(bytes[end])) end += 1;
    if (end - start < length) return { start, end, text: null, open: end === bytes.length };
    const text = length ? decode(bytes.subarray(start, end)) : null;
    return { start, end: text === null ? start + 1 : end, text, open: false };
  }

  function characters(bytes) {
    const found = [];
    for (let at = 0; at < bytes.length; at = found[found.length - 1].end) found.push(characterAt(bytes, at));
    return found;
  }

  function concat(parts) {
    const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
    let at = 0;
    for (const part of parts) {
      all.set(part, at);
      at += part.length;
    }
    return all;
  }

  // Which token owns each byte of the joined path.
  function owners(parts) {
    return parts.flatMap((part, token) => new Array(part.length).fill(token));
  }

  function groupByOwner(character, owner) {
    const groups = new Map();
    for (let at = character.start; at < character.end; at += 1) {
      if (!groups.has(owner[at])) groups.set(owner[at], []);
      groups.get(owner[at]).push(at);
    }
    return groups;
  }

  // A character inside one token is text of it; one over m tokens shows whole in each, as part k of m.
  function spread(character, bytes, owner, segments) {
    const groups = groupByOwner(character, owner);
    let part = 0;
    for (const [token, positions] of groups) {
      part += 1;
      if (character.text === null) segments[token].push({ text: hex(positions.map((at) => bytes[at])), hex: true });
      else if (groups.size === 1) segments[token].push({ text: character.text });
      else segments[token].push({ text: character.text, part: part + "/" + groups.size, first: part === 1 });
    }
  }

  function mergePlain(segments) {
    const merged = [];
    for (const segment of segments) {
      const before = merged[merged.length - 1];
      if (before && !before.hex && !before.part && !segment.hex && !segment.part) before.text += segment.text;
      else merged.push(segment);
    }
    return merged;
  }

  // Tokens that follow each other, as arrays of bytes -> per token its segments {text, part?, hex?}.
  function pieces(path) {
    const bytes = concat(path);
    const owner = owners(path);
    const segments = path.map(() => []);
    for (const character of characters(bytes)) spread(character, bytes, owner, segments);
    return segments.map(mergePlain);
  }

  function isWhole(segments) {
    return segments.every((segment) => !segment.hex);
  }

  // Where a character begins whose end has not come yet; the length when there is none.
  function openFrom(bytes) {
    for (let back = 1; back <= Math.min(3, bytes.length); back += 1) {
      const byte = bytes[bytes.length - back];
      if (!isContinuation(byte)) return characterLength(byte) > back ? bytes.length - back : bytes.length;
    }
    return bytes.length;
  }

  function textOf(bytes) {
    const text = decode(bytes);
    if (text !== null) return text;
    return characters(bytes).map((c) => (c.text === null ? hex(bytes.subarray(c.start, c.end)) : c.text)).join("");
  }

  // The text of tokens in the middle of an answer: what belongs to a character that began before is left out.
  function middle(parts) {
    const bytes = concat(parts);
    let start = 0;
    while (start < Math.min(3, bytes.length) && isContinuation(bytes[start])) start += 1;
    return bytes.subarray(start);
  }

  // Tokens arriving one by one, or many joined: each gets the characters that it completes.
  function stream() {
    let pending = new Uint8Array(0);
    return {
      push(bytes) {
        const all = concat([pending, bytes]);
        const open = openFrom(all);
        pending = all.slice(open);
        return textOf(all.subarray(0, open));
      },
      flush() {
        const rest = pending.length ? hex(pending) : "";
        pending = new Uint8Array(0);
        return rest;
      },
    };
  }

  const NAMED = { "\n": "↵", "\t": "⇥", "\r": "␍", " ": "␣", "\u00a0": "⍽", "\u007f": "␡" };
  // Marks that would change the order or the presence of the text around them.
  const INVISIBLE = /[\u00ad\u061c\u200b\u200c\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;

  function codePoint(character) {
    return "⟨U+" + character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0") + "⟩";
  }

  // Text of a cell with its whitespace and controls made visible; spaces only where they would be lost.
  function visible(text) {
    const shown = text
      .replace(/^ +| +$/g, (spaces) => "␣".repeat(spaces.length))
      .replace(/[\n\t\r\u00a0\u007f]/g, (character) => NAMED[character])
      .replace(/[\u0000-\u001f]/g, (character) => String.fromCharCode(0x2400 + character.charCodeAt(0)))
      .replace(INVISIBLE, codePoint);
    return /^[\u200d\ufe0e\ufe0f\u0300-\u036f]+$/.test(shown) ? Array.from(shown, codePoint).join("") : shown;
  }

  function isSpecial(text) {
    return /^<\|[^|<>]*\|>$|^<\/?s>$|^<(pad|bos|eos|unk|mask)>$/i.test(text);
  }

  DFlashViz.tokens = { fromLatin1, hex, characters, concat, middle, pieces, isWhole, stream, visible, isSpecial };
})();
