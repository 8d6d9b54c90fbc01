# The service of `mhgrn serve` with the built-in model, at port 8000. It needs no network and no volume.
#   docker build -t mhgrn . && docker run --rm -p 127.0.0.1:8000:8000 -e MHGRN_TOKEN=secret mhgrn
# To serve your own run: docker run -v "$PWD/run:/run-of-mine:ro" ... mhgrn serve /run-of-mine --host 0.0.0.0
# Without a graphics card, --build-arg PIP_EXTRA_INDEX_URL=ADDRESS with an index of processor builds of torch makes the image smaller.
FROM python:3.11-slim AS build
ARG PIP_EXTRA_INDEX_URL=
COPY requirements.lock constraints.txt pyproject.toml README.md LICENSE /source/
COPY src /source/src
WORKDIR /source
# Packages that only development needs are left out: the lock is used as constraints.
RUN python -m venv /opt/mhgrn \
    && /opt/mhgrn/bin/pip install --no-cache-dir --constraint requirements.lock '.[serve]'

FROM python:3.11-slim
COPY --from=build /opt/mhgrn /opt/mhgrn
RUN useradd --create-home --uid 1000 mhgrn
USER 1000
WORKDIR /home/mhgrn
ENV PATH=/opt/mhgrn/bin:$PATH HF_HUB_OFFLINE=1 PYTHONUNBUFFERED=1
# Compile the kernels and unpack the built-in model now, not at the first question.
RUN mhgrn ask starter "Where would a child sit at a desk?" -c classroom -c moon
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/readyz', timeout=4)"]
ENTRYPOINT ["mhgrn"]
CMD ["serve", "--host", "0.0.0.0"]
