// Shows pictures in the theme of the page. Some browsers show a picture in the theme of the system.
{
    const root = document.documentElement;
    let shown;

    function show() {
        const theme = getComputedStyle(root).colorScheme;
        if (theme === shown) {
            return;
        }
        shown = theme;
        document.querySelectorAll("main img").forEach(async image => {
            image.dataset.file ??= image.src;
            const picture = await (await fetch(image.dataset.file)).text();
            const rule = theme === "dark" ? "all" : "not all";
            const themed = picture.replace(/\(prefers-color-scheme: ?dark\)/, rule);
            image.src = `data:image/svg+xml,${encodeURIComponent(themed)}`;
        });
    }

    // A page that is opened as a file cannot read its pictures.
    if (location.protocol !== "file:") {
        new MutationObserver(show).observe(root, { attributeFilter: ["class"] });
        show();
    }
}
