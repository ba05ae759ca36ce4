"""Instructions whose following can be verified by rule: IFEval's 25 kinds, strict and loose.

Source: Zhou et al. 2023, Instruction-Following Evaluation for Large Language Models, arXiv:2311.07911; the verdicts are
those of google-research/instruction_following_eval, its quirks included, without anything downloaded at run time.
"""
