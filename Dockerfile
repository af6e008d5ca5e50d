# The `pststream` command with Java 17, the locked packages and the jars inside; needs no network when it runs.
#   docker build -t pststream .
#   docker run --rm -v "$PWD/data:/data" pststream status
FROM python:3.11-slim-bookworm

RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/pststream

COPY requirements.txt ./
RUN pip install --no-cache-dir --require-hashes --requirement requirements.txt

COPY infra/fetch_jars.py infra/jars.sha256 infra/
RUN python infra/fetch_jars.py

COPY pyproject.toml requirements.in README.md ./
COPY pststream pststream
COPY jobs jobs
COPY dags dags
RUN pip install --no-cache-dir --no-index --no-deps --no-build-isolation --editable .

RUN useradd --create-home --uid 10001 pststream && mkdir /data && chown pststream /data
USER pststream
ENV PSTSTREAM_HOME=/data/home
WORKDIR /data
RUN python -m pststream.benchmarks.warm
VOLUME /data

ENTRYPOINT ["pststream"]
CMD ["--help"]
