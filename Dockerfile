# Paceline's daemons, commands and shim: docker build -t paceline:0.1.0 .
# The first stage has an older C library than most images that jobs run in, so that they can load the shim's.
FROM python:3.11-bullseye AS build
WORKDIR /src
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.11-slim-bookworm
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir /wheels/*.whl && rm -rf /wheels
# hostd needs root and two capabilities, switchd neither: the manifests in deploy/kubernetes say so for each.
ENV GRPC_VERBOSITY=NONE OPENBLAS_NUM_THREADS=1 PYTHONUNBUFFERED=1
CMD ["paceline", "--help"]
