// The end of the index of the Chinese book. mdBook's search splits texts at blanks, which Chinese does not have, so this
// search takes its place: it finds the words of a query anywhere in the sections of the index, titles first.
{
    const sections = Object.values(window.search.index.documentStore.docs).map(doc => ({
        doc,
        title: doc.title.toLowerCase(),
        place: doc.breadcrumbs.toLowerCase(),
        body: doc.body.toLowerCase(),
    }));

    const isHan = text => /\p{Script=Han}/u.test(text);

    /** How much a section is about a word; 0 if it does not have the word. */
    function weight(section, word) {
        const count = section.body.split(word).length - 1;
        const exact = section.title === word ? 20 : 0;
        const title = section.title.includes(word) ? 10 : 0;
        const place = section.place.includes(word) ? 3 : 0;
        return exact + title + place + 4 * count / (count + 1 + section.body.length / 1000);
    }

    /** The sections that have all words, or at least one word; the best first. */
    function find(words, all) {
        const found = [];
        for (const section of sections) {
            const weights = words.map(word => weight(section, word));
            if (all ? weights.every(one => one > 0) : weights.some(one => one > 0)) {
                const score = weights.reduce((sum, one) => sum + one, 0);
                found.push({ ref: section.doc.id, score, doc: section.doc, words });
            }
        }
        return found.sort((one, other) => other.score - one.score);
    }

    /** A text without blanks as its pairs of characters; other words as they are. */
    function pairs(word) {
        return isHan(word) ? [...word].slice(1).map((end, at) => [...word][at] + end) : [word];
    }

    /** The result with a short part of its body around the first word, between blanks, where mdBook marks it. */
    function shortened(result, word) {
        const body = result.doc.body;
        const at = Math.max(0, body.toLowerCase().indexOf(word));
        const part = body.slice(Math.max(0, at - 30), at + 90);
        const marked = isHan(word) ? part.replaceAll(word, ` ${word} `) : part;
        return { ...result, doc: { ...result.doc, body: marked } };
    }

    window.elasticlunr.Index.load = () => ({
        search(query) {
            const words = query.toLowerCase().split(/\s+/);
            const exact = find(words, true);
            const found = exact.length ? exact : find(words.flatMap(pairs), false);
            return found.map(result => shortened(result, words[0]));
        },
    });

    // mdBook says how many results there are, in English.
    Object.defineProperty(document.getElementById("mdbook-searchresults-header"), "innerText", {
        set(text) { this.textContent = /^\d/.test(text) ? `${parseInt(text)} 条结果` : "没有找到"; },
    });
}
