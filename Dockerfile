# The command, for the logs of the folder that is mounted:
#   docker build -t stabdiag .
#   docker run --rm --network none -v "$PWD:/runs:ro" stabdiag run.jsonl
FROM python:3.13-slim AS build
WORKDIR /source
COPY constraints.txt pyproject.toml README.md LICENSE ./
COPY stabdiag stabdiag
COPY data data
RUN python -m venv --without-pip /opt/stabdiag \
    && python -m pip --python /opt/stabdiag/bin/python install \
        --no-cache-dir --constraint constraints.txt .

FROM python:3.13-slim
COPY --from=build /opt/stabdiag /opt/stabdiag
USER 10001:10001
WORKDIR /runs
ENTRYPOINT ["/opt/stabdiag/bin/stabdiag"]
CMD ["--help"]
