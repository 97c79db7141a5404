#!/usr/bin/env python3
"""What the site of docs/ (book.toml) needs besides mdBook.

    site.py                 as a preprocessor of mdBook: unlinks what leads out of docs/, as to READMEs and sources, and
                            leaves out pictures, which are not there either
    site.py check FOLDER    whether every link of the site that was built leads to a page and a heading of it
"""

import html.parser
import json
import pathlib
import posixpath
import re
import sys
import urllib.parse


def unlinked(text, page):
    """Returns a page with the text alone of links that leave the site; blocks of code stay as they are."""
    def replaced(link):
        target = link[2].split("#")[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
        return link[1] if path.startswith("..") and "://" not in target else link[0]

    text = re.sub(r"^<picture>.*?</picture>\n\n?", "", text, flags=re.MULTILINE | re.DOTALL)
    parts = re.split(r"(^```.*?^```)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else re.sub(r"\[([^][]+)\]\(([^)]+)\)", replaced, part) for part in parts)


def preprocess():
    _, book = json.load(sys.stdin)
    waiting = list(book["items"])
    while waiting:
        chapter = waiting.pop()
        chapter = chapter.get("Chapter") if isinstance(chapter, dict) else None
        if chapter and chapter["path"]:
            chapter["content"] = unlinked(chapter["content"], chapter["path"])
        waiting += chapter["sub_items"] if chapter else []
    json.dump(book, sys.stdout)


class Links(html.parser.HTMLParser):
    """The links of a page, and what they may lead to."""

    def __init__(self, path):
        super().__init__()
        self.links, self.ids = [], {""}
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.ids.add(attrs.get("id", ""))
        if tag == "a" and "href" in attrs:
            self.links.append(attrs["href"])
        if tag in ("img", "source"):
            self.links.append(attrs.get("src") or attrs.get("srcset"))


def check(folder):
    pages = {path.resolve(): Links(path) for path in folder.rglob("*.html")}
    broken, count = set(), 0
    for path, page in pages.items():
        for link in page.links:
            url = urllib.parse.urlsplit(link)
            if url.scheme or url.netloc:
                continue
            count += 1
            target = (path.parent / urllib.parse.unquote(url.path)).resolve() if url.path else path
            target = target / "index.html" if target.is_dir() else target
            ids = pages[target].ids if target in pages else {""} if target.is_file() else ()
            if urllib.parse.unquote(url.fragment) not in ids:
                broken.add(f"{path.relative_to(folder.resolve())}: {link}")
    if broken or not count:
        sys.exit("\n".join(["links of the site that lead nowhere:", *sorted(broken)]))
    print(f"{len(pages)} pages, {count} links")


if sys.argv[1:2] == ["supports"]:
    sys.exit(sys.argv[2] != "html")
elif sys.argv[1:2] == ["check"]:
    check(pathlib.Path(sys.argv[2]))
else:
    preprocess()
