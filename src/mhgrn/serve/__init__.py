"""The HTTP service: questions by JSON, and a page to ask them in a browser.

Needs ``pip install 'mhgrn[serve]'``. :func:`mhgrn.serve.app.create_app` makes the application, :func:`mhgrn.serve.server.serve`
runs it.
"""
