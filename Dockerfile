# docker build -t vadd . && docker run --rm -v "$PWD/runs:/data/runs" vadd sample mnist-pretrained -n 64 --out runs/a.png
# The studio: docker run --rm -p 7860:7860 vadd studio --host 0.0.0.0 --token CHOOSE-ONE
FROM python:3.11-slim
WORKDIR /opt/vadd
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
RUN pip install --no-cache-dir --constraint constraints.txt ".[studio,tables,text]"
WORKDIR /data
EXPOSE 7860
ENTRYPOINT ["vadd"]
CMD ["--help"]
