# One image for all of it: Airflow's components, Spark's master and workers, the jobs, and the `pststream` command.
#   docker build -t pststream .
#   docker run --rm -v pststream:/var/lib/pststream pststream pststream init
# What happens in it is infra/image/build.sh, which runs anywhere: `make image-steps`. docs/where-it-runs.md says more.
# Another version: change the tag and the digest together.
ARG BASE=python:3.11.15-slim-bookworm@sha256:d29f48a31a8b408ed19272ca1e7b10ebae13b240a27e862d3d4217c528e2e0c3
ARG JAVA=eclipse-temurin:17.0.19_10-jre-jammy@sha256:475d8e96b4b2bfe08999e5e854755c773af1581acdf959a4545d88f0696a2339

FROM ${JAVA} AS java

FROM ${BASE} AS build
# Debian drops a version as soon as a newer one is there, so a pin here would break the build; neither stays but tini.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends make tini \
    && rm -rf /var/lib/apt/lists/*
COPY --from=java /opt/java/openjdk /opt/java/openjdk
ENV JAVA_HOME=/opt/java/openjdk PATH=/opt/java/openjdk/bin:$PATH PSTSTREAM_CACHE_DIR=/var/cache/pststream
WORKDIR /opt/pststream
COPY Makefile requirements.txt ./
COPY infra/uv.txt infra/
COPY pststream/cli/fetch_jars.py pststream/cli/jars.sha256 pststream/cli/
COPY infra/image/build.sh infra/image/
RUN bash infra/image/build.sh packages
COPY . .
RUN bash infra/image/build.sh project
RUN chmod -R g=u /var/cache/pststream

FROM ${BASE}
# Airflow's Spark hook asks a standalone master for the state of a driver by /usr/bin/curl.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends curl \
    && rm -rf /var/lib/apt/lists/*
COPY --from=java /opt/java/openjdk /opt/java/openjdk
COPY --from=build /usr/bin/tini-static /usr/local/bin/tini
COPY --from=build /opt/pststream /opt/pststream
COPY infra/image/entrypoint.sh /entrypoint
# Its own group is that of root, which owns nothing that it may write but these folders: a platform that gives a
# container some user of its own gives it this group.
COPY --from=build --chown=50000:0 /var/cache/pststream /var/cache/pststream
RUN useradd --uid 50000 --gid 0 --no-create-home --home-dir /var/lib/pststream pststream \
    && install --directory --owner=50000 --group=0 --mode=770 \
        /var/lib/pststream /var/lib/pststream/home /var/lib/pststream/landing /var/lib/pststream/landing-users \
        /var/lib/pststream/spark /var/lib/airflow
ENV JAVA_HOME=/opt/java/openjdk \
    PATH=/opt/pststream/.venv/bin:/opt/java/openjdk/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONUNBUFFERED=1 \
    PSTSTREAM_HOME=/var/lib/pststream/home \
    PSTSTREAM_CACHE_DIR=/var/cache/pststream \
    AIRFLOW_HOME=/var/lib/airflow \
    AIRFLOW__CORE__DAGS_FOLDER=/opt/pststream/dags \
    AIRFLOW__CORE__LOAD_EXAMPLES=False \
    AIRFLOW__USAGE_DATA_COLLECTION__ENABLED=False
USER 50000:0
WORKDIR /var/lib/pststream
# For a container that works on a home by itself, as `pststream run --watch`; compose and Kubernetes have their own.
HEALTHCHECK --interval=60s --timeout=30s --start-period=60s CMD ["pststream", "status", "--json", "--quiet"]
ENTRYPOINT ["tini", "-g", "--"]
CMD ["pststream", "--help"]
