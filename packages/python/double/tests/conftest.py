"""The plugin comes with the installed package; `pytester` runs further sessions of pytest."""

pytest_plugins = ["pytester"]
