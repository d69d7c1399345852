// The end of the index of each book. It takes the place of mdBook's search, which splits texts at blanks, and so finds no
// word of a Chinese sentence and no part of `retry_after_us`. This search looks for words anywhere in the sections that the
// index holds, titles first.
{
    const sections = Object.values(window.search.index.documentStore.docs).map(doc => ({
        doc,
        page: window.search.doc_urls[doc.id].split("#")[0],
        title: doc.title.toLowerCase(),
        place: doc.breadcrumbs.toLowerCase(),
        body: doc.body.toLowerCase(),
    }));
    const isHan = text => /\p{Script=Han}/u.test(text);

    /** How much a text is about a word: a word by itself counts three times as much as a part of another word. */
    function count(text, word) {
        const isPart = char => /[a-z0-9_\p{Script=Han}]/u.test(char ?? "");
        let sum = 0;
        for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + word.length)) {
            const whole = !isPart(text[at - 1]) && !isPart(text[at + word.length]);
            sum += whole ? 3 : 1;
        }
        return sum;
    }

    /** How much a section is about a word; 0 if it does not have the word. */
    function weight({ title, place, body }, word) {
        const named = Math.min(count(title, word), 3) * (1 + 2 * word.length / title.length);
        const inBody = count(body, word);
        return 4 * named + Math.min(count(place, word), 3) + 5 * inBody / (inBody + 3 + body.length / 500);
    }

    /** The sections that have all words, or at least one word; the best of the pages that are most about them first. */
    function find(words, all) {
        const found = [];
        const pages = new Map();
        for (const section of sections) {
            const weights = words.map(word => weight(section, word));
            if (all ? weights.every(one => one > 0) : weights.some(one => one > 0)) {
                const score = weights.reduce((sum, one) => sum + one, 0);
                found.push({ ref: section.doc.id, score, doc: section.doc, page: section.page });
                pages.set(section.page, (pages.get(section.page) ?? 0) + score);
            }
        }
        found.forEach(result => result.score += 2 * Math.log2(1 + pages.get(result.page)));
        return found.sort((one, other) => other.score - one.score);
    }

    /** What is looked for if no section has all words: Chinese by pairs of characters, other words without their ending. */
    function parts(word) {
        const pairs = [...word].slice(1).map((end, at) => [...word][at] + end);
        return isHan(word) ? pairs : [elasticlunr.stemmer(word).replace(/(.{3})i$/, "$1")];
    }

    /** The result with a part of its body around the first word; blanks around Chinese let mdBook mark it. */
    function shortened(result, words) {
        const lower = result.doc.body.toLowerCase();
        const word = words.find(word => lower.includes(word)) ?? "";
        const before = Math.max(0, lower.indexOf(word) - 40);
        const at = isHan(word) ? before : lower.lastIndexOf(" ", before) + 1;
        const part = result.doc.body.slice(at, at + 160);
        const body = isHan(word) ? part.replaceAll(word, ` ${word} `) : part;
        return { ...result, doc: { ...result.doc, body } };
    }

    elasticlunr.Index.load = () => ({
        search(query) {
            let words = query.toLowerCase().split(/\s+/);
            let found = find(words, true);
            if (found.length === 0) {
                words = words.flatMap(parts);
                found = find(words, false);
            }
            return found.map(result => shortened(result, words));
        },
    });

    // mdBook says in English how many results there are.
    if (document.documentElement.lang !== "en") {
        Object.defineProperty(document.getElementById("mdbook-searchresults-header"), "innerText", {
            set(text) { this.textContent = /^\d/.test(text) ? `${parseInt(text)} 条结果` : "没有找到"; },
        });
    }
}
