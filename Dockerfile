# One image for every role, so that schemas and adapter digests never differ between them: the role is the command.
#   docker build -t turngate .        docker run turngate run validator
# The full image, for its compiler: one dependency has no wheel for ARM.
FROM python:3.12-bookworm AS build
WORKDIR /src
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 UV_NO_CACHE=1 UV_PYTHON_DOWNLOADS=never
COPY requirements-bootstrap.lock requirements-fleet.lock ./
# The tools that build stay in /opt/build; only /opt/venv goes on.
RUN python -m venv /opt/build \
  && /opt/build/bin/pip install --require-hashes -r requirements-bootstrap.lock \
  && python -m venv --without-pip /opt/venv \
  && /opt/build/bin/uv pip install --python /opt/venv/bin/python --compile-bytecode --require-hashes \
       -r requirements-fleet.lock
COPY pyproject.toml README.md LICENSE ./
COPY schemas schemas
COPY topology topology
COPY services services
RUN /opt/build/bin/hatchling build -t wheel \
  && /opt/build/bin/uv pip install --python /opt/venv/bin/python --compile-bytecode --no-deps dist/*.whl

FROM python:3.12-slim-bookworm
LABEL org.opencontainers.image.title="turngate" \
      org.opencontainers.image.description="Exactly-once LLM turns on Kafka and Redis" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/venv /opt/venv
ENV PATH=/opt/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    TURNGATE_HTTP_HOST=0.0.0.0 TURNGATE_HTTP_PORT=8080
# A number, so that a cluster can see that it is not root.
USER 10001:10001
EXPOSE 8080
STOPSIGNAL SIGTERM
ENTRYPOINT ["turngate"]
CMD ["--help"]
