#!/usr/bin/env python3
"""Writes demo-trace.jsonl: one hour of a chat service, in the form of a Mooncake trace.

    make_demo_trace.py [FILE]       default: demo-trace.jsonl beside this script; "-" is standard output

The requests are made up; their statistics are published ones:

* Lengths: Azure LLM inference trace 2023, conversation (https://github.com/Azure/AzurePublicDataset, described by Patel et
  al., "Splitwise: Efficient generative LLM inference using phase splitting", ISCA 2024): 19,366 requests in 58 minutes,
  contexts of 1154.7 tokens and answers of 211.1 tokens in the mean. The quantiles below were computed from that file. Drawn
  lengths are scaled so that the demo has the same two means. The demo has about 1/12 of the requests.
* Turns: a conversation has 2.0 turns in the mean (Zheng et al., "LMSYS-Chat-1M", ICLR 2024, table 1) and a user writes 69.5
  tokens a turn (same table); the count is drawn as geometric.
* Form: Mooncake trace (Qin et al., "Mooncake", FAST 2025): time in ms, lengths in tokens, ids of 512-token blocks; prompts
  that begin with the same ids begin with the same text.

Not published and chosen here: conversations start as a Poisson process; four system prompts, used at 8 : 4 : 2 : 1, begin
every prompt; a user takes 45 s in the mean between an answer and the next turn; an answer is written at 30 tokens a second.
"""

import math
import os
import random
import sys

SEED = 20231116
BLOCK = 512
HOUR_MS = 3600 * 1000
REQUESTS = 19366 // 12
MEAN_CONTEXT = 1154.7
MEAN_ANSWER = 211.1
MEAN_TURNS = 2.0
MEAN_USER_TOKENS = 69.5
MEAN_THINK_S = 45.0
TOKENS_PER_S = 30.0
SYSTEM_PROMPTS = ((8, 620), (4, 540), (2, 1100), (1, 1580))  # weight, tokens

# (share of the requests, tokens) of the Azure conversation trace
CONTEXT = ((0.0, 2), (0.10, 207), (0.25, 396), (0.50, 1020), (0.75, 1189), (0.90, 2735), (0.95, 4083), (0.99, 4142),
           (1.0, 14050))
ANSWER = ((0.0, 7), (0.10, 54), (0.25, 85), (0.50, 129), (0.75, 395), (0.90, 424), (0.95, 451), (0.99, 601), (1.0, 1000))


def quantile(table, share):
    """Between two given points the length grows linearly."""
    for (s0, v0), (s1, v1) in zip(table, table[1:]):
        if share <= s1:
            return v0 + (v1 - v0) * (share - s0) / (s1 - s0)
    return table[-1][1]


def exponential(rng, mean):
    return -mean * math.log(1.0 - rng.random())


def pick_system_prompt(rng):
    at = rng.random() * sum(weight for weight, _ in SYSTEM_PROMPTS)
    for number, (weight, _) in enumerate(SYSTEM_PROMPTS):
        at -= weight
        if at < 0:
            return number
    return len(SYSTEM_PROMPTS) - 1


def conversations(context_scale, answer_scale):
    """Requests as (time in ms, conversation, system prompt, prompt tokens, answer tokens), in order of time."""
    rng = random.Random(SEED)
    requests = []
    n_conversations = round(REQUESTS / MEAN_TURNS)
    for conversation in range(n_conversations):
        now = rng.random() * HOUR_MS
        system = pick_system_prompt(rng)
        # What the user brings along: a question, and often a document.
        prompt = SYSTEM_PROMPTS[system][1] + max(1, round(context_scale * quantile(CONTEXT, rng.random())))
        while True:
            answer = max(1, round(answer_scale * quantile(ANSWER, rng.random())))
            more = rng.random() >= 1.0 / MEAN_TURNS
            wait = exponential(rng, MEAN_THINK_S) + answer / TOKENS_PER_S
            question = max(1, round(exponential(rng, MEAN_USER_TOKENS)))
            if now < HOUR_MS:
                requests.append((int(now), conversation, system, prompt, answer))
            if not more:
                break
            now += 1000.0 * wait
            prompt += answer + question
    return sorted(requests)


def mean(requests, column):
    return sum(request[column] for request in requests) / len(requests)


def fitted():
    """The scales are found by halving: both means grow with their scale. Answers come first: later contexts hold them."""
    low, high = 0.0, 4.0
    for _ in range(40):
        answer_scale = (low + high) / 2
        if mean(conversations(1.0, answer_scale), 4) < MEAN_ANSWER:
            low = answer_scale
        else:
            high = answer_scale
    low, high = 0.0, 4.0
    for _ in range(40):
        context_scale = (low + high) / 2
        if mean(conversations(context_scale, answer_scale), 3) < MEAN_CONTEXT:
            low = context_scale
        else:
            high = context_scale
    return conversations(context_scale, answer_scale)


def block_ids(requests):
    """A whole block is known by what it holds: the system prompt's, or the conversation's at that place. A partial last
    block is a text of its own, since the next turn's prompt goes on within it."""
    numbers = {}
    for index, (_, conversation, system, prompt, _) in enumerate(requests):
        ids = []
        for block in range(-(-prompt // BLOCK)):
            end = (block + 1) * BLOCK
            if end > prompt:
                text = ("partial", index)
            elif end <= SYSTEM_PROMPTS[system][1]:
                text = ("system", system, block)
            else:
                text = ("conversation", conversation, block)
            ids.append(numbers.setdefault(text, len(numbers)))
        yield ids


def main():
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "demo-trace.jsonl")
    path = sys.argv[1] if len(sys.argv) > 1 else beside
    requests = fitted()
    lines = []
    for (time_ms, _, _, prompt, answer), ids in zip(requests, block_ids(requests)):
        lines.append('{"timestamp": %d, "input_length": %d, "output_length": %d, "hash_ids": %s}\n'
                     % (time_ms, prompt, answer, ids))
    if path == "-":
        sys.stdout.writelines(lines)
    else:
        with open(path, "w", encoding="ascii", newline="\n") as file:
            file.writelines(lines)
    sys.stderr.write("%d requests, contexts of %.1f and answers of %.1f tokens in the mean\n"
                     % (len(requests), mean(requests, 3), mean(requests, 4)))


if __name__ == "__main__":
    main()
