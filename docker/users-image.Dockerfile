# The trainer image and the node image on top of BASE, an image of the user's own with Python, a framework and Horovod:
# check it, and add the worker side.
ARG BASE

# hadolint ignore=DL3006
FROM ${BASE} AS added
# hadolint ignore=DL3002,DL3066
USER root
SHELL ["/bin/sh", "-eu", "-c"]
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG FRAMEWORK
COPY ca-bundle.crt requirements-worker.txt users-image.sh /tmp/
RUN sh /tmp/users-image.sh "${FRAMEWORK}"

# hadolint ignore=DL3006
FROM ${BASE} AS trainer
# hadolint ignore=DL3002,DL3066
USER root
WORKDIR /
ENTRYPOINT []
SHELL ["/bin/sh", "-eux", "-c"]
# hadolint ignore=DL3008
RUN apt-get update; \
    apt-get install --yes --no-install-recommends ca-certificates git openssh-client procps; \
    rm -rf /var/lib/apt/lists/* /var/cache/apt/*
ENV PATH=/opt/orchestrator/bin:$PATH
COPY --from=added /added /
COPY orchestrator /opt/orchestrator/src/orchestrator
ARG DIGEST
RUN python -m compileall -q /opt/orchestrator/src; \
    echo "${DIGEST}" > /opt/orchestrator/digest

FROM trainer AS node
COPY node.sh /tmp/
RUN sh /tmp/node.sh
COPY node-init /usr/local/sbin/node-init
STOPSIGNAL SIGRTMIN+3
ENTRYPOINT ["/usr/local/sbin/node-init"]
